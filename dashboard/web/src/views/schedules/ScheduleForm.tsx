import { type FormEvent, useState } from "react";
import { useAction } from "@/api/hooks";
import { changeSchedule, createSchedule } from "@/api/schedules";
import type { Schedule } from "@/api/types";
import { useAgency } from "@/live/hooks";
import css from "@/ui/ListAndEditor.module.css";
import { Refusal } from "@/ui/Refusal";
import { type Draft, draftOf, newDraft, scheduleOf } from "@/views/schedules/draft";

interface Props {
  agency: string;
  /** Null is a new one. */
  schedule: Schedule | null;
  onSaved(made: Schedule): Promise<void>;
}

export function ScheduleForm({ agency, schedule, onSaved }: Props) {
  const { blueprints } = useAgency(agency);
  const agents = blueprints.filter((each) => each.status === "active").map((each) => each.name);
  const [draft, setDraft] = useState<Draft>(() => (schedule ? draftOf(schedule) : newDraft(agents[0] ?? "")));
  const set = <K extends keyof Draft>(name: K, value: Draft[K]) => setDraft((before) => ({ ...before, [name]: value }));
  const save = useAction(async () => {
    const wanted = scheduleOf(draft);
    await onSaved(schedule ? await changeSchedule(agency, schedule.id, wanted) : await createSchedule(agency, wanted));
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void save.run();
  };
  return (
    <form className={css.form} onSubmit={submit} aria-label={schedule ? "Schedule" : "New schedule"}>
      <div className={css.pair}>
        <label className="field">
          <span>Name</span>
          <input value={draft.name} required onChange={(event) => set("name", event.target.value)} />
        </label>
        <label className="field">
          <span>Agent</span>
          <select value={draft.agentType} required onChange={(event) => set("agentType", event.target.value)}>
            {[...new Set([...agents, ...(draft.agentType ? [draft.agentType] : [])])].map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      </div>
      <label className="field">
        <span>Message</span>
        <textarea rows={4} value={draft.message} required onChange={(event) => set("message", event.target.value)} />
      </label>
      <div className={css.pair}>
        <label className="field">
          <span>When</span>
          <select value={draft.kind} onChange={(event) => set("kind", event.target.value as Draft["kind"])}>
            <option value="interval">every so often</option>
            <option value="cron">by a cron line</option>
            <option value="once">once</option>
          </select>
        </label>
        {draft.kind === "once" && (
          <label className="field">
            <span>At (your time)</span>
            <input
              type="datetime-local"
              value={draft.at}
              required
              onChange={(event) => set("at", event.target.value)}
            />
          </label>
        )}
        {draft.kind === "interval" && (
          <>
            <label className="field">
              <span>Every</span>
              <input
                type="number"
                min={1}
                value={draft.every}
                required
                onChange={(event) => set("every", event.target.value)}
              />
            </label>
            <label className="field">
              <span>Unit</span>
              <select value={draft.unit} onChange={(event) => set("unit", event.target.value as Draft["unit"])}>
                <option>seconds</option>
                <option>minutes</option>
                <option>hours</option>
                <option>days</option>
              </select>
            </label>
          </>
        )}
        {draft.kind === "cron" && (
          <>
            <label className="field">
              <span>Minute hour day month weekday</span>
              <input
                className="code"
                value={draft.cron}
                required
                onChange={(event) => set("cron", event.target.value)}
              />
            </label>
            <label className="field">
              <span>Time zone</span>
              <input
                value={draft.timezone}
                list="zones"
                required
                onChange={(event) => set("timezone", event.target.value)}
              />
              <datalist id="zones">
                {["UTC", ...Intl.supportedValuesOf("timeZone")].map((zone) => (
                  <option key={zone} value={zone} />
                ))}
              </datalist>
            </label>
          </>
        )}
      </div>
      <div className={css.pair}>
        <label className="field">
          <span>If the last one is still running</span>
          <select value={draft.overlap} onChange={(event) => set("overlap", event.target.value as Draft["overlap"])}>
            <option value="skip">skip this one</option>
            <option value="queue">wait for it</option>
            <option value="allow">start another</option>
          </select>
        </label>
        <label className="field">
          <span>If some were missed</span>
          <select value={draft.catchUp} onChange={(event) => set("catchUp", event.target.value as Draft["catchUp"])}>
            <option value="one">start once</option>
            <option value="none">leave them out</option>
          </select>
        </label>
      </div>
      <Refusal problem={save.problem} />
      <div>
        <button type="submit" className="button primary" disabled={save.busy}>
          {schedule ? "Save" : "Create"}
        </button>
      </div>
    </form>
  );
}
