import { type FormEvent, useState } from "react";
import { getUsage, putBudget } from "@/api/agencies";
import { useAction, useLoad } from "@/api/hooks";
import type { AgencyUsage, Limits } from "@/api/types";
import { count, duration, money, number, total } from "@/text/format";
import { Loading } from "@/ui/Empty";
import { Failed } from "@/ui/Failed";
import { Refusal } from "@/ui/Refusal";
import css from "@/views/settings/SettingsView.module.css";

const EVERY_MS = 5_000;

const PARTS: readonly {
  name: keyof Limits;
  label: string;
  used(usage: AgencyUsage): number;
  show(n: number): string;
}[] = [
  { name: "costUsd", label: "Cost in US dollars", used: (usage) => usage.costUsd ?? 0, show: money },
  { name: "tokens", label: "Tokens", used: (usage) => total(usage.tokensUsed), show: number },
  { name: "turns", label: "Turns", used: (usage) => usage.turns, show: number },
  { name: "timeMs", label: "Working time in ms", used: (usage) => usage.activeMs, show: duration },
];

export function UsageCard({ agency }: { agency: string }) {
  const { data, problem, reload } = useLoad(agency, () => getUsage(agency), { everyMs: EVERY_MS });
  return (
    <section className="card" aria-labelledby="usage-title">
      <h2 className={css.heading} id="usage-title">
        Usage and budget
      </h2>
      {data ? (
        <>
          <p className="soft">
            What {count(data.threads, "thread")} and those that were deleted have used, from the first day on.
            {data.exhausted && (
              <strong className="bad"> The budget is used up ({data.exhausted}): no thread calls a model.</strong>
            )}
          </p>
          <dl className={css.usage}>
            {PARTS.map(({ name, label, used, show }) => {
              const most = data.budget[name];
              const part = most === null || most === undefined ? null : most === 0 ? 1 : Math.min(1, used(data) / most);
              return (
                <div key={name}>
                  <dt>{label.replace(/ in .*/, "")}</dt>
                  <dd>{name === "costUsd" ? money(data.costUsd) : show(used(data))}</dd>
                  {part !== null && (
                    <dd className="faint">
                      of {show(most ?? 0)}
                      <span className={css.bar} data-full={part >= 1 || undefined}>
                        <span style={{ width: `${100 * part}%` }} />
                      </span>
                    </dd>
                  )}
                </div>
              );
            })}
          </dl>
          <BudgetForm key={JSON.stringify(data.budget)} agency={agency} budget={data.budget} onSaved={reload} />
        </>
      ) : problem ? (
        <Failed problem={problem} retry={() => void reload()} />
      ) : (
        <Loading />
      )}
    </section>
  );
}

function BudgetForm({ agency, budget, onSaved }: { agency: string; budget: Limits; onSaved(): Promise<void> }) {
  const [texts, setTexts] = useState<Record<string, string>>(() =>
    Object.fromEntries(
      PARTS.map(({ name }) => [name, budget[name] === null || budget[name] === undefined ? "" : String(budget[name])]),
    ),
  );
  const save = useAction(async () => {
    const given = PARTS.map(({ name }) => [name, texts[name]?.trim() ? Number(texts[name]) : null]);
    await putBudget(agency, Object.fromEntries(given));
    await onSaved();
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void save.run();
  };
  return (
    <form className="stack" onSubmit={submit} aria-label="Budget">
      <div className={css.pair}>
        {PARTS.map(({ name, label }) => (
          <label key={name} className="field">
            <span>{label}, at most</span>
            <input
              type="number"
              className="num"
              min={0}
              step={name === "costUsd" ? "any" : 1}
              placeholder="no limit"
              value={texts[name]}
              onChange={(event) => setTexts({ ...texts, [name]: event.target.value })}
            />
          </label>
        ))}
      </div>
      <Refusal problem={save.problem} />
      <div>
        <button type="submit" className="button" disabled={save.busy}>
          Save the budget
        </button>
      </div>
    </form>
  );
}
