import { PlusIcon } from "lucide-react";
import { useAgency, useAgencyStore } from "@/live/hooks";
import { Link, navigate } from "@/router/router";
import { to } from "@/router/routes";
import { Empty, Loading } from "@/ui/Empty";
import css from "@/ui/ListAndEditor.module.css";
import { PageHead } from "@/ui/PageHead";
import { UnattendedMark } from "@/ui/UnattendedMark";
import { BlueprintForm } from "@/views/blueprints/BlueprintForm";

/** Under this name, a blueprint that is not there yet; no blueprint can have it. */
const NEW = "+";

/** An agency's agents: the code's, and its own in their place. */
export default function BlueprintsView({ agency, name }: { agency: string; name: string | null }) {
  const store = useAgencyStore(agency);
  const { blueprints, loaded } = useAgency(agency);
  const chosen = blueprints.find((each) => each.name === name) ?? null;
  return (
    <>
      <PageHead title="Blueprints">
        <Link className="button small" href={to.page(agency, "blueprints", NEW)}>
          <PlusIcon size={13} />
          New blueprint
        </Link>
      </PageHead>
      <div className={css.split} data-open={name !== null || undefined}>
        <ul className={`${css.list} scroll`} aria-label="Blueprints">
          {blueprints.map((each) => (
            <li key={each.name}>
              <Link
                className={css.item}
                href={to.page(agency, "blueprints", each.name)}
                aria-current={each.name === name ? "page" : undefined}
              >
                <span className="row">
                  <strong className="cut grow">{each.name}</strong>
                  {each.source === "agency" && <span className="tag">own</span>}
                  {each.status !== "active" && (
                    <span className="tag" data-tone="wait">
                      {each.status}
                    </span>
                  )}
                </span>
                <span className={css.about}>{each.description}</span>
                <span className="row">
                  <UnattendedMark tools={each.unattendedTools} />
                </span>
              </Link>
            </li>
          ))}
        </ul>
        <div className={`${css.editor} scroll`}>
          {!loaded ? (
            <Loading />
          ) : name === null ? (
            <Empty title={blueprints.length ? "Choose a blueprint." : "There are no blueprints."}>
              <p>An agent’s prompt, tools, model and limits. Changes count for threads that begin from then on.</p>
            </Empty>
          ) : name !== NEW && chosen === null ? (
            <Empty title={`There is no blueprint “${name}”.`}>Choose another one on the left.</Empty>
          ) : (
            <BlueprintForm
              key={name}
              agency={agency}
              blueprint={chosen}
              onSaved={async (saved) => {
                await store.reloadBlueprints();
                navigate(to.page(agency, "blueprints", saved), { replace: name === NEW });
              }}
              onDeleted={async () => {
                await store.reloadBlueprints();
                navigate(to.page(agency, "blueprints"), { replace: true });
              }}
            />
          )}
        </div>
      </div>
    </>
  );
}
