import { useEffect, useState } from "react";
import { resolveBlueprint } from "@/api/agencies";
import { useLoad } from "@/api/hooks";
import type { ResolvedBlueprint } from "@/api/types";
import { useSettled } from "@/ui/useSettled";
import { type Draft, resolvableOf, toggledTag, words } from "@/views/blueprints/draft";
import css from "@/views/blueprints/Resolved.module.css";

const SOON_MS = 300;
const RISKS = { low: "idle", medium: "wait", high: "bad", depends: "wait" } as const;

/** What an agent of the draft would get, while it is written: which tag brings which middleware and tools. */
export function Resolved({ agency, draft, onTags }: { agency: string; draft: Draft; onTags(tags: string): void }) {
  const wanted = useSettled(JSON.stringify(resolvableOf(draft)), SOON_MS);
  const key = wanted === "null" ? null : `${agency} ${wanted}`;
  const { data } = useLoad(key, () => resolveBlueprint(agency, JSON.parse(wanted)));
  const [last, setLast] = useState<ResolvedBlueprint | null>(null);
  useEffect(() => {
    if (data) setLast(data);
  }, [data]);
  if (last === null) return <div className={css.wait} />;
  const chosen = words(draft.tags);
  return (
    <section className={css.resolved} aria-label="What the agent gets" aria-busy={data === undefined}>
      <ul className={css.tags} aria-label="Known tags">
        {last.knownTags.map(({ tag, tools, middleware }) => (
          <li key={tag}>
            <button
              type="button"
              className={css.tag}
              aria-pressed={chosen.includes(tag)}
              title={[...middleware.map((each) => `middleware ${each}`), ...tools.map((each) => `tool ${each}`)].join(
                "\n",
              )}
              onClick={() => onTags(toggledTag(draft.tags, tag))}
            >
              {tag}
            </button>
          </li>
        ))}
      </ul>
      {last.problem && (
        <p className="bad" role="status">
          {last.problem}
        </p>
      )}
      <div className={css.columns}>
        <div>
          <h3 className="title">Middleware</h3>
          {last.middleware.length === 0 && <p className="faint">None.</p>}
          <ul className={css.list}>
            {last.middleware.map(({ name, tags, description, configured }) => (
              <li key={name}>
                <strong>{name}</strong> <By tags={tags} />
                {configured && <span className="tag">configured</span>}
                {description && <p className="faint">{description}</p>}
              </li>
            ))}
          </ul>
        </div>
        <div>
          <h3 className="title">
            Tools <span className="faint num">{last.tools.length}</span>
          </h3>
          {last.tools.length === 0 && <p className="faint">None.</p>}
          <ul className={css.list}>
            {last.tools.map(({ name, risk, middleware, tags, description }) => (
              <li key={name}>
                <code>{name}</code>{" "}
                {risk !== "low" && (
                  <span className="tag" data-tone={RISKS[risk]}>
                    {risk === "depends" ? "risk depends" : `${risk} risk`}
                  </span>
                )}{" "}
                {middleware ? <span className="faint">of {middleware}</span> : <By tags={tags} />}
                {description && <p className="faint">{description}</p>}
              </li>
            ))}
          </ul>
        </div>
      </div>
      {last.warnings.map((each) => (
        <p key={each} className={css.warning}>
          {each}
        </p>
      ))}
      <p className="faint">Asks {last.models.join(", then ")}.</p>
    </section>
  );
}

function By({ tags }: { tags: readonly string[] }) {
  return <span className="faint">{tags.length ? `by ${tags.join(", ")}` : "by name"}</span>;
}
