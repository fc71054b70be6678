import { getUsage, putBudget } from "@/api/agencies";
import { useLoad } from "@/api/hooks";
import type { AgencyLayers, AgencyUsage } from "@/api/types";
import { count, duration, money, number, total } from "@/text/format";
import { Loading } from "@/ui/Empty";
import { Failed } from "@/ui/Failed";
import { LayersForm, type LimitPart } from "@/views/settings/LayersForm";
import css from "@/views/settings/SettingsView.module.css";

const EVERY_MS = 5_000;

const PARTS: readonly (LimitPart & { used(usage: AgencyUsage): number })[] = [
  { name: "costUsd", label: "Cost in US dollars", used: (usage) => usage.costUsd ?? 0, show: money },
  { name: "tokens", label: "Tokens", used: (usage) => total(usage.tokensUsed), show: number },
  { name: "turns", label: "Turns", used: (usage) => usage.turns, show: number },
  { name: "timeMs", label: "Working time in ms", used: (usage) => usage.activeMs, show: duration },
];

interface Props {
  agency: string;
  /** None for those who may not set a budget, or until it is known. */
  layers: AgencyLayers | null | undefined;
  onSaved(): Promise<void>;
}

export function UsageCard({ agency, layers, onSaved }: Props) {
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
          {layers && (
            <LayersForm
              key={JSON.stringify(layers.budget)}
              what="the budget"
              label="Budget"
              parts={PARTS}
              layers={layers.budget}
              yours={layers.yours}
              min={0}
              onSave={async (budget) => {
                await putBudget(agency, budget);
                await Promise.all([reload(), onSaved()]);
              }}
            />
          )}
        </>
      ) : problem ? (
        <Failed problem={problem} retry={() => void reload()} />
      ) : (
        <Loading />
      )}
    </section>
  );
}
