import { putLimits } from "@/api/agencies";
import type { AgencyLayers } from "@/api/types";
import { duration, money, number } from "@/text/format";
import { LayersForm, type LimitPart } from "@/views/settings/LayersForm";
import css from "@/views/settings/SettingsView.module.css";

const PARTS: readonly LimitPart[] = [
  { name: "costUsd", label: "Cost in US dollars", show: money },
  { name: "tokens", label: "Tokens", show: number },
  { name: "turns", label: "Turns", show: number },
  { name: "timeMs", label: "Working time in ms", show: duration },
];

interface Props {
  agency: string;
  layers: AgencyLayers;
  onSaved(): Promise<void>;
}

/** The most that each run may use, whatever its blueprint or its caller says. */
export function LimitsCard({ agency, layers, onSaved }: Props) {
  return (
    <section className="card" aria-labelledby="limits-title">
      <h2 className={css.heading} id="limits-title">
        Limits of every run
      </h2>
      <p className="soft">
        The most that one run may use, whatever its agent, its caller or its schedule says; subagents’ runs, too.
      </p>
      <LayersForm
        key={JSON.stringify(layers.limits)}
        what="the limits"
        label="Limits of every run"
        parts={PARTS}
        layers={layers.limits}
        yours={layers.yours}
        min={0}
        onSave={async (limits) => {
          await putLimits(agency, limits);
          await onSaved();
        }}
      />
    </section>
  );
}
