import { useId, useState } from "react";
import { useAction } from "@/api/hooks";
import type { ExtensionAction, JsonObject } from "@/api/types";
import { Dialog } from "@/ui/Dialog";
import { readJson } from "@/ui/JsonField";
import { Refusal } from "@/ui/Refusal";
import { bodyOf, type Field, fieldsOf } from "@/views/panels/fields";
import css from "@/views/panels/PanelView.module.css";

interface Props {
  action: ExtensionAction;
  act(body: JsonObject): Promise<unknown>;
  onClose(): void;
}

/** Asks for what a route takes. */
export function ActionForm({ action, act, onClose }: Props) {
  const fields = fieldsOf(action.route.body as JsonObject | null);
  const [filled, setFilled] = useState<Record<string, string>>({});
  const doing = useAction(() => act(bodyOf(fields, filled)));
  const isBroken = ({ kind, name, first }: Field) => kind === "json" && "problem" in readJson(filled[name] ?? first);
  return (
    <Dialog title={action.label} onClose={onClose}>
      <form
        className={css.form}
        onSubmit={async (event) => {
          event.preventDefault();
          if (await doing.run()) onClose();
        }}
      >
        {action.confirm && <p className="soft">{action.confirm}</p>}
        {fields.map((field) => (
          <Input
            key={field.name}
            field={field}
            value={filled[field.name] ?? field.first}
            onChange={(value) => setFilled((before) => ({ ...before, [field.name]: value }))}
          />
        ))}
        <Refusal problem={doing.problem} />
        <div className="row">
          <button type="submit" className="button primary" disabled={doing.busy || fields.some(isBroken)}>
            {action.label}
          </button>
          <button type="button" className="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Input({ field, value, onChange }: { field: Field; value: string; onChange(value: string): void }) {
  const { label, kind, choices, hint, required } = field;
  const id = useId();
  return (
    <label className="field" htmlFor={id}>
      <span>{label}</span>
      {kind === "choice" ? (
        <select id={id} value={value} onChange={(event) => onChange(event.target.value)}>
          {!choices.includes(value) && <option value="" />}
          {choices.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      ) : kind === "check" ? (
        <input
          id={id}
          type="checkbox"
          checked={value === "true"}
          onChange={(event) => onChange(String(event.target.checked))}
        />
      ) : kind === "number" ? (
        <input
          id={id}
          type="number"
          step="any"
          required={required}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      ) : (
        <textarea
          id={id}
          rows={kind === "json" ? 4 : 2}
          className={kind === "json" ? "code" : undefined}
          required={required}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
      {hint && <small className="faint">{hint}</small>}
    </label>
  );
}
