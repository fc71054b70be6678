import { lazy, Suspense, useState } from "react";
import { askRoute, type NamedPanel, usePanels } from "@/api/extensions";
import { useLoad } from "@/api/hooks";
import type { ExtensionAction, Json, JsonObject } from "@/api/types";
import { Confirm } from "@/ui/Confirm";
import { Empty, Loading } from "@/ui/Empty";
import { Failed } from "@/ui/Failed";
import { PageHead } from "@/ui/PageHead";
import { ActionForm } from "@/views/panels/ActionForm";
import { fieldsOf, isObject } from "@/views/panels/fields";
import css from "@/views/panels/PanelView.module.css";

const Markdown = lazy(() => import("@/ui/Markdown"));

/** A panel that a middleware brings: what one of its routes answers, and buttons for others. It is data, never code. */
export default function PanelView({ agency, name }: { agency: string; name: string | null }) {
  const { data, problem, reload } = usePanels();
  const found = data?.find((each) => each.id === name);
  if (found) return <Shown agency={agency} named={found} />;
  if (data) return <Empty title="The server has no such panel.">Choose something on the left.</Empty>;
  return problem ? <Failed problem={problem} retry={reload} /> : <Loading />;
}

const needsRow = (action: ExtensionAction) => action.route.path.includes("{");

function Shown({ agency, named: { extension, panel } }: { agency: string; named: NamedPanel }) {
  const loaded = useLoad(`${agency} ${panel.name}`, () => askRoute(agency, extension, panel.reads));
  const [chosen, setChosen] = useState<{ action: ExtensionAction; row: JsonObject } | null>(null);
  const act = async (body?: JsonObject) => {
    if (chosen === null) return;
    await askRoute(agency, extension, chosen.action.route, chosen.row, body);
    await loaded.reload();
  };
  const close = () => setChosen(null);
  return (
    <>
      <PageHead title={panel.title}>
        {panel.actions
          .filter((action) => !needsRow(action))
          .map((action) => (
            <ActionButton key={action.label} action={action} onClick={() => setChosen({ action, row: {} })} />
          ))}
      </PageHead>
      <div className={`${css.panel} scroll`}>
        {loaded.problem ? (
          <Failed problem={loaded.problem} retry={loaded.reload} />
        ) : loaded.data === undefined ? (
          <Loading />
        ) : panel.show === "markdown" ? (
          <Suspense fallback={<Loading />}>
            <Markdown text={written(loaded.data)} />
          </Suspense>
        ) : panel.show === "facts" ? (
          <Facts value={loaded.data} />
        ) : (
          <Rows
            value={loaded.data}
            columns={panel.columns}
            actions={panel.actions.filter(needsRow)}
            onAct={(action, row) => setChosen({ action, row })}
          />
        )}
      </div>
      {chosen &&
        (fieldsOf(chosen.action.route.body as JsonObject | null).length > 0 ? (
          <ActionForm action={chosen.action} act={act} onClose={close} />
        ) : (
          <Confirm title={chosen.action.label} deed={chosen.action.label} act={() => act()} onClose={close}>
            {chosen.action.confirm || chosen.action.route.description}
          </Confirm>
        ))}
    </>
  );
}

function ActionButton({ action, onClick }: { action: ExtensionAction; onClick(): void }) {
  return (
    <button type="button" className="button small" onClick={onClick}>
      {action.label}
    </button>
  );
}

interface RowsProps {
  value: Json;
  columns: readonly string[];
  actions: readonly ExtensionAction[];
  onAct(action: ExtensionAction, row: JsonObject): void;
}

function Rows({ value, columns, actions, onAct }: RowsProps) {
  const rows = (Array.isArray(value) ? value : []).filter(isObject);
  const shown = columns.length > 0 ? columns : [...new Set(rows.flatMap(Object.keys))];
  if (rows.length === 0) return <Empty title="There is nothing yet." />;
  return (
    <table className="table">
      <thead>
        <tr>
          {shown.map((name) => (
            <th key={name}>{name}</th>
          ))}
          {actions.length > 0 && <th aria-label="Actions" />}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={JSON.stringify(row)}>
            {shown.map((name) => (
              <td key={name}>{written(row[name])}</td>
            ))}
            {actions.length > 0 && (
              <td>
                {actions.map((action) => (
                  <ActionButton key={action.label} action={action} onClick={() => onAct(action, row)} />
                ))}
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Facts({ value }: { value: Json }) {
  if (!isObject(value)) return <p>{written(value)}</p>;
  return (
    <table className="table">
      <tbody>
        {Object.entries(value).map(([name, each]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>{written(each)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function written(value: Json | undefined): string {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
