import { type FormEvent, useState } from "react";
import { useAction } from "@/api/hooks";
import type { Layer, Limits } from "@/api/types";
import { Refusal } from "@/ui/Refusal";
import css from "@/views/settings/SettingsView.module.css";

export interface LimitPart {
  name: keyof Limits;
  label: string;
  show(n: number): string;
}

interface Props {
  /** What is limited, as in "the budget". */
  what: string;
  label: string;
  parts: readonly LimitPart[];
  layers: Record<Layer, Limits>;
  yours: Layer;
  /** The smallest number that makes sense. */
  min: number;
  onSave(limits: Limits): Promise<unknown>;
}

const WHOSE = { owner: "The owner’s", agency: "The agency’s" } as const;
const LAYERS = ["owner", "agency"] as const;

const text = (n: number | null | undefined) => (n === null || n === undefined ? "" : String(n));

/** Numbers that the installation's owner and the agency each set: the smaller of each counts, and is marked. */
export function LayersForm({ what, label, parts, layers, yours, min, onSave }: Props) {
  const [texts, setTexts] = useState<Record<string, string>>(() =>
    Object.fromEntries(parts.map(({ name }) => [name, text(layers[yours][name])])),
  );
  const save = useAction(() =>
    onSave(Object.fromEntries(parts.map(({ name }) => [name, texts[name]?.trim() ? Number(texts[name]) : null]))),
  );
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void save.run();
  };
  return (
    <form className="stack" onSubmit={submit} aria-label={label}>
      <div className={css.wide}>
        <table className="table">
          <thead>
            <tr>
              <th>At most</th>
              {LAYERS.map((layer) => (
                <th key={layer}>
                  {WHOSE[layer]}
                  {layer === yours && <span className="faint"> (yours)</span>}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {parts.map(({ name, label: part, show }) => (
              <tr key={name}>
                <td>{part}</td>
                {LAYERS.map((layer) => (
                  <td key={layer}>
                    {layer === yours ? (
                      <input
                        type="number"
                        className="num"
                        aria-label={`${part}, at most`}
                        min={min}
                        step={name === "costUsd" ? "any" : 1}
                        placeholder="no limit"
                        value={texts[name]}
                        onChange={(event) => setTexts({ ...texts, [name]: event.target.value })}
                      />
                    ) : (
                      <span className="num">{shown(layers[layer][name], show)}</span>
                    )}
                    {holds(layers, layer, name) && <span className="faint"> in effect</span>}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {yours === "agency" && (
        <p className="faint">What the owner of the installation has set, you can make smaller, and not larger.</p>
      )}
      <Refusal problem={save.problem} />
      <div>
        <button type="submit" className="button" disabled={save.busy}>
          Save {what}
        </button>
      </div>
    </form>
  );
}

const shown = (n: number | null | undefined, show: (n: number) => string) =>
  n === null || n === undefined ? "no limit" : show(n);

/** Whether it is a layer's number that counts; of two that are the same, the owner's does. */
function holds(layers: Record<Layer, Limits>, layer: Layer, name: keyof Limits): boolean {
  const other = layers[layer === "owner" ? "agency" : "owner"][name] ?? Number.POSITIVE_INFINITY;
  const own = layers[layer][name];
  return own !== null && own !== undefined && (layer === "owner" ? own <= other : own < other);
}
