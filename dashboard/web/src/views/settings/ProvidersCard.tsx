import { Trash2Icon } from "lucide-react";
import { type FormEvent, useState } from "react";
import { deleteProvider, listProviders, putProvider } from "@/api/agencies";
import { useAction, useLoad } from "@/api/hooks";
import { Problem } from "@/api/problem";
import type { JsonObject, ProviderEntry, ProviderInfo } from "@/api/types";
import { Confirm } from "@/ui/Confirm";
import { IconButton } from "@/ui/IconButton";
import { JsonField, readJson } from "@/ui/JsonField";
import { Refusal } from "@/ui/Refusal";
import css from "@/views/settings/SettingsView.module.css";

const SOURCES = { code: "the code", settings: "the installation", agency: "this agency" } as const;
const NEW = { name: "", api: "openai" as ProviderEntry["api"], baseUrl: "", key: "", more: "" };

/** Where models are: the installation's providers, and those that the agency has added or put in their place. */
export function ProvidersCard({ agency }: { agency: string }) {
  const { data, problem, reload } = useLoad(agency, () => listProviders(agency));
  const [draft, setDraft] = useState(NEW);
  const [removing, setRemoving] = useState<ProviderInfo | null>(null);
  const set = (more: Partial<typeof NEW>) => setDraft((before) => ({ ...before, ...more }));
  const add = useAction(async () => {
    await putProvider(agency, draft.name.trim(), entryOf(draft));
    setDraft(NEW);
    await reload();
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void add.run();
  };
  const change = ({ name, entry }: ProviderInfo) => {
    if (entry === null) return;
    const { api, baseUrl, key, ...rest } = entry;
    const more = Object.fromEntries(Object.entries(rest).filter(([, value]) => isSet(value)));
    const text = Object.keys(more).length ? JSON.stringify(more, null, 2) : "";
    setDraft({ name, api, baseUrl: baseUrl ?? "", key: key ?? "", more: text });
  };
  return (
    <section className="card" aria-label="Providers">
      <h2 className={css.heading}>Model providers</h2>
      <p className="faint">
        A model is named provider:model. A provider of the agency replaces the installation’s of the same name, for
        every model call that begins from now on.
      </p>
      <Refusal problem={problem} />
      <div className="stack">
        {data && (
          <div className={css.wide}>
            <table className="table">
              <thead>
                <tr>
                  <th>Name</th>
                  <th>From</th>
                  <th>API</th>
                  <th>Address</th>
                  <th>
                    <span className="unseen">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {data.map((each) => (
                  <tr key={each.name}>
                    <td className="mono">{each.name}</td>
                    <td>
                      {SOURCES[each.source]}
                      {each.setBy === "owner" && <span className="faint">, set by the owner</span>}
                    </td>
                    <td>{each.entry?.api ?? ""}</td>
                    <td className="mono">{each.entry?.baseUrl ?? ""}</td>
                    <td>
                      {each.source === "agency" && (
                        <span className="row">
                          <button type="button" className="button small quiet" onClick={() => change(each)}>
                            Change
                          </button>
                          <IconButton
                            icon={Trash2Icon}
                            label={`Remove ${each.name}`}
                            small
                            onClick={() => setRemoving(each)}
                          />
                        </span>
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
        <form className="stack" onSubmit={submit} aria-label="New provider">
          <div className={css.pair}>
            <label className="field">
              <span>Name</span>
              <input
                value={draft.name}
                required
                pattern="[a-z][a-z0-9_\-]{0,63}"
                title="Small letters, digits, _ and -, beginning with a letter"
                spellCheck={false}
                placeholder="ollama"
                onChange={(event) => set({ name: event.target.value })}
              />
            </label>
            <label className="field">
              <span>API</span>
              <select value={draft.api} onChange={(event) => set({ api: event.target.value as ProviderEntry["api"] })}>
                <option value="openai">openai</option>
                <option value="anthropic">anthropic</option>
              </select>
            </label>
          </div>
          <div className={css.pair}>
            <label className="field">
              <span>Address</span>
              <input
                value={draft.baseUrl}
                spellCheck={false}
                placeholder="https://example.org/v1"
                onChange={(event) => set({ baseUrl: event.target.value })}
              />
            </label>
            <label className="field">
              <span>Key, by reference</span>
              <input
                value={draft.key}
                spellCheck={false}
                placeholder="env:AGENCY_KEY_MINE"
                onChange={(event) => set({ key: event.target.value })}
              />
            </label>
          </div>
          <details>
            <summary className="soft">Headers, prices and more</summary>
            <JsonField
              label="Other fields of the entry"
              hint='As {"maxTokensField": "max_tokens", "pricedAs": "openrouter"}'
              text={draft.more}
              onChange={(more) => set({ more })}
            />
          </details>
          <div className="row">
            <button type="submit" className="button" disabled={add.busy}>
              {data?.some(({ name, source }) => source === "agency" && name === draft.name.trim())
                ? "Replace the provider"
                : "Add a provider"}
            </button>
            <Refusal problem={add.problem} />
          </div>
        </form>
      </div>
      {removing && (
        <Confirm
          title="Remove the provider"
          deed={`Remove “${removing.name}”`}
          onClose={() => setRemoving(null)}
          act={async () => {
            await deleteProvider(agency, removing.name);
            await reload();
          }}
        >
          If it replaced one of the installation, that one counts again. Agents whose models it had cannot ask them any
          more.
        </Confirm>
      )}
    </section>
  );
}

function entryOf({ api, baseUrl, key, more }: typeof NEW): JsonObject {
  const read = readJson(more);
  if ("problem" in read) throw new Problem(0, `Other fields: not JSON yet: ${read.problem}`);
  if (read.value !== null && (typeof read.value !== "object" || Array.isArray(read.value))) {
    throw new Problem(0, 'Other fields: an object, as {"pricedAs": "openrouter"}.');
  }
  return {
    ...(read.value ?? {}),
    api,
    ...(baseUrl.trim() ? { baseUrl: baseUrl.trim() } : {}),
    ...(key.trim() ? { key: key.trim() } : {}),
  };
}

/** What says something that an empty entry would not. */
function isSet(value: unknown): boolean {
  return value !== null && !(typeof value === "object" && Object.keys(value as object).length === 0);
}
