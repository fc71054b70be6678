import { type FormEvent, useState } from "react";
import { deleteBlueprint, putBlueprint } from "@/api/agencies";
import { useAction } from "@/api/hooks";
import type { Blueprint, Limits } from "@/api/types";
import { dateTime } from "@/text/format";
import { Confirm } from "@/ui/Confirm";
import { JsonField } from "@/ui/JsonField";
import css from "@/ui/ListAndEditor.module.css";
import { Refusal } from "@/ui/Refusal";
import { UnattendedMark } from "@/ui/UnattendedMark";
import { blueprintOf, type Draft, draftOf, NEW } from "@/views/blueprints/draft";
import { Resolved } from "@/views/blueprints/Resolved";

interface Props {
  agency: string;
  /** Null is a new one. */
  blueprint: Blueprint | null;
  onSaved(name: string): Promise<void>;
  onDeleted(): Promise<void>;
}

const LIMITS: readonly [keyof Limits, string][] = [
  ["turns", "Turns"],
  ["timeMs", "Working time in ms"],
  ["tokens", "Tokens"],
  ["costUsd", "Cost in US dollars"],
];

export function BlueprintForm({ agency, blueprint, onSaved, onDeleted }: Props) {
  const [draft, setDraft] = useState<Draft>(() => (blueprint ? draftOf(blueprint) : NEW));
  const [saved, setSaved] = useState(false);
  const [deleting, setDeleting] = useState(false);
  const set = <K extends keyof Draft>(name: K, value: Draft[K]) => {
    setSaved(false);
    setDraft((before) => ({ ...before, [name]: value }));
  };
  const save = useAction(async () => {
    const made = await putBlueprint(agency, blueprintOf(draft));
    await onSaved(made.name);
    setSaved(true);
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void save.run();
  };
  const own = blueprint?.source === "agency";
  return (
    <form
      className={css.form}
      onSubmit={submit}
      aria-label={blueprint ? `Blueprint ${blueprint.name}` : "New blueprint"}
    >
      <p className="faint">
        {blueprint === null
          ? "A new agent of this agency."
          : own
            ? `The agency’s own${blueprint.updatedAt ? `, changed ${dateTime(blueprint.updatedAt)}` : ""}.`
            : "From the code. What is saved here takes its place in this agency."}
      </p>
      {blueprint !== null && blueprint.warnings.length > 0 && (
        <ul className={css.warnings} aria-label="What has no effect">
          {blueprint.warnings.map((each) => (
            <li key={each}>{each}</li>
          ))}
        </ul>
      )}
      {blueprint === null && (
        <label className="field">
          <span>Name</span>
          <input value={draft.name} onChange={(event) => set("name", event.target.value)} required spellCheck={false} />
        </label>
      )}
      <label className="field">
        <span>Description</span>
        <input value={draft.description} onChange={(event) => set("description", event.target.value)} />
      </label>
      <label className="field">
        <span>Prompt</span>
        <textarea rows={8} value={draft.prompt} onChange={(event) => set("prompt", event.target.value)} required />
      </label>
      <div className={css.pair}>
        <label className="field">
          <span>Model</span>
          <input
            value={draft.model}
            placeholder="the installation’s"
            spellCheck={false}
            onChange={(event) => set("model", event.target.value)}
          />
        </label>
        <label className="field">
          <span>Tags, which bring tools and middleware</span>
          <input value={draft.tags} spellCheck={false} onChange={(event) => set("tags", event.target.value)} />
        </label>
      </div>
      <div className={css.pair}>
        <label className="field">
          <span>Tools besides, by name</span>
          <input value={draft.tools} spellCheck={false} onChange={(event) => set("tools", event.target.value)} />
        </label>
        <label className="field">
          <span>Middleware besides, by name</span>
          <input
            value={draft.middleware}
            spellCheck={false}
            onChange={(event) => set("middleware", event.target.value)}
          />
        </label>
      </div>
      <Resolved agency={agency} draft={draft} onTags={(tags) => set("tags", tags)} />
      <div className={css.pair}>
        <Choice
          label="Status"
          value={draft.status}
          of={["active", "draft", "disabled"]}
          onChange={(value) => set("status", value)}
        />
        <Choice label="Mode" value={draft.mode} of={["tools", "code"]} onChange={(value) => set("mode", value)} />
        <Choice
          label="Isolation"
          value={draft.isolation}
          of={["shared", "dedicated"]}
          onChange={(value) => set("isolation", value)}
        />
      </div>
      <label className="row">
        <input
          type="checkbox"
          checked={draft.unattended}
          onChange={(event) => set("unattended", event.target.checked)}
        />
        Unattended: run tools of medium and high risk without asking a person
        <UnattendedMark tools={blueprint?.unattendedTools ?? []} />
      </label>
      <fieldset className={css.limits}>
        <legend className="title">Limits of a run; empty is none</legend>
        <div className={css.pair}>
          {LIMITS.map(([name, label]) => (
            <label key={name} className="field">
              <span>{label}</span>
              <input
                className="num"
                inputMode="decimal"
                value={draft.limits[name]}
                onChange={(event) => set("limits", { ...draft.limits, [name]: event.target.value })}
              />
            </label>
          ))}
        </div>
      </fieldset>
      <details className={css.fold} open={Boolean(draft.config || draft.params || draft.outputSchema)}>
        <summary>Configuration, parameters, output schema</summary>
        <div className="stack">
          <JsonField
            label="Configuration of middleware"
            hint='By their names, as {"hitl": {"tools": ["refund"]}}'
            text={draft.config}
            onChange={(text) => set("config", text)}
          />
          <JsonField
            label="Parameters of the model"
            hint='As {"temperature": 0.2, "reasoning": "low"}'
            text={draft.params}
            onChange={(text) => set("params", text)}
          />
          <JsonField
            label="Output schema"
            hint="A JSON schema that the result of a run must fit; empty is text."
            text={draft.outputSchema}
            onChange={(text) => set("outputSchema", text)}
          />
          <label className="field">
            <span>Capabilities that its models must have</span>
            <input
              value={draft.requires}
              placeholder="images, structured_output"
              spellCheck={false}
              onChange={(event) => set("requires", event.target.value)}
            />
          </label>
        </div>
      </details>
      <div className={css.bottom}>
        <button type="submit" className="button primary" disabled={save.busy}>
          {blueprint === null ? "Create" : "Save"}
        </button>
        {own && (
          <button type="button" className="button quiet" onClick={() => setDeleting(true)}>
            Remove …
          </button>
        )}
        <span className="faint" role="status">
          {saved ? "Saved. Threads that begin from now on get it." : ""}
        </span>
        <Refusal problem={save.problem} />
      </div>
      {deleting && blueprint && (
        <Confirm
          title="Remove the blueprint"
          deed="Remove"
          onClose={() => setDeleting(false)}
          act={async () => {
            await deleteBlueprint(agency, blueprint.name);
            await onDeleted();
          }}
        >
          If it was in the place of one from the code, that one counts again. Threads keep what they began with.
        </Confirm>
      )}
    </form>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  value: T;
  of: readonly T[];
  onChange(value: T): void;
}

function Choice<T extends string>({ label, value, of, onChange }: ChoiceProps<T>) {
  return (
    <label className="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.target.value as T)}>
        {of.map((each) => (
          <option key={each}>{each}</option>
        ))}
      </select>
    </label>
  );
}
