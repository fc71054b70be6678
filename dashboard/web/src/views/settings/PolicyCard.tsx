import { Trash2Icon } from "lucide-react";
import { type FormEvent, useState } from "react";
import { getPolicy, putPolicy } from "@/api/agencies";
import { useAction, useLoad } from "@/api/hooks";
import { Problem } from "@/api/problem";
import type { AgencyLayers, JsonObject, Policy, PolicyRule } from "@/api/types";
import { duration } from "@/text/format";
import { IconButton } from "@/ui/IconButton";
import { readJson } from "@/ui/JsonField";
import { Refusal } from "@/ui/Refusal";
import css from "@/views/settings/SettingsView.module.css";

interface Props {
  agency: string;
  /** None for those who may not set a policy, or until it is known. */
  layers: AgencyLayers | null | undefined;
  onSaved(): Promise<void>;
}

/** How risky calls are here, and what becomes of those that no person decides on. Not shown if the gateway has no policies. */
export function PolicyCard({ agency, layers, onSaved }: Props) {
  const { data, reload } = useLoad(agency, () => getPolicy(agency));
  if (!data) return null;
  const own = layers?.policy[layers.yours] ?? data;
  return (
    <section className="card" aria-labelledby="policy-title">
      <h2 className={css.heading} id="policy-title">
        Approval policy
      </h2>
      <p className="soft">
        Rules say how risky a tool’s calls are, for all arguments or for those that fit a JSON schema.
      </p>
      {layers && <OtherPolicy layers={layers} />}
      <PolicyForm
        key={JSON.stringify(own)}
        agency={agency}
        policy={own}
        onSaved={async () => {
          await Promise.all([reload(), onSaved()]);
        }}
      />
    </section>
  );
}

/** The policy that the one who looks cannot change here, if there is one. */
function OtherPolicy({ layers }: { layers: AgencyLayers }) {
  const isOwners = layers.yours === "agency";
  const { rules, timeoutMs, onTimeout } = layers.policy[isOwners ? "owner" : "agency"];
  if (!rules.length && timeoutMs === null) return null;
  return (
    <section aria-label={isOwners ? "The owner’s policy" : "The agency’s policy"}>
      <p>
        {isOwners
          ? "The owner of the installation has these rules. They hold besides yours: the higher risk counts."
          : "An admin of the agency has these rules besides. They can only make yours stricter."}
      </p>
      <ul>
        {rules.map((rule) => (
          <li key={JSON.stringify(rule)}>
            <span className="mono">{rule.tool}</span> is {rule.risk}
            {rule.when && <code> if {JSON.stringify(rule.when)}</code>}
          </li>
        ))}
        {timeoutMs !== null && (
          <li>
            {onTimeout === "deny" ? "Denied" : "Approved"} after {duration(timeoutMs)} without a decision
          </li>
        )}
      </ul>
    </section>
  );
}

interface Row {
  tool: string;
  risk: PolicyRule["risk"];
  when: string;
}

const rowOf = ({ tool, risk, when }: PolicyRule): Row => ({ tool, risk, when: when ? JSON.stringify(when) : "" });

function ruleOf({ tool, risk, when }: Row): PolicyRule {
  const read = readJson(when);
  if ("problem" in read) throw new Problem(0, `The rule for ${tool}: not JSON yet: ${read.problem}`);
  if (read.value === null) return { tool, risk, when: null };
  if (typeof read.value !== "object" || Array.isArray(read.value))
    throw new Problem(0, `The rule for ${tool}: a JSON schema is an object.`);
  return { tool, risk, when: read.value as JsonObject };
}

function PolicyForm({ agency, policy, onSaved }: { agency: string; policy: Policy; onSaved(): Promise<void> }) {
  const [rows, setRows] = useState<Row[]>(() => policy.rules.map(rowOf));
  const [minutes, setMinutes] = useState(policy.timeoutMs === null ? "" : String(policy.timeoutMs / 60_000));
  const [onTimeout, setOnTimeout] = useState(policy.onTimeout);
  const save = useAction(async () => {
    const timeoutMs = minutes.trim() ? Math.round(Number(minutes) * 60_000) : null;
    await putPolicy(agency, { rules: rows.map(ruleOf), timeoutMs, onTimeout });
    await onSaved();
  });
  const change = (at: number, part: Partial<Row>) =>
    setRows(rows.map((row, n) => (n === at ? { ...row, ...part } : row)));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void save.run();
  };
  return (
    <form className="stack" onSubmit={submit} aria-label="Approval policy">
      <ul className={css.rules}>
        {rows.map((row, at) => (
          <li key={at} className={css.rule}>
            <input
              aria-label={`Tool of rule ${at + 1}`}
              placeholder="tool, or * for all"
              value={row.tool}
              required
              spellCheck={false}
              onChange={(event) => change(at, { tool: event.target.value })}
            />
            <select
              aria-label={`Risk of rule ${at + 1}`}
              value={row.risk}
              onChange={(event) => change(at, { risk: event.target.value as PolicyRule["risk"] })}
            >
              <option value="low">low</option>
              <option value="medium">medium</option>
              <option value="high">high</option>
            </select>
            <input
              className="code"
              aria-label={`Arguments of rule ${at + 1}, as a JSON schema`}
              placeholder='when, as {"properties": {"cents": {"minimum": 5000}}}'
              value={row.when}
              spellCheck={false}
              onChange={(event) => change(at, { when: event.target.value })}
            />
            <IconButton
              icon={Trash2Icon}
              label={`Remove rule ${at + 1}`}
              onClick={() => setRows(rows.filter((_, n) => n !== at))}
            />
          </li>
        ))}
      </ul>
      <div>
        <button
          type="button"
          className="button small"
          onClick={() => setRows([...rows, { tool: "", risk: "high", when: "" }])}
        >
          Add a rule
        </button>
      </div>
      <div className={css.pair}>
        <label className="field">
          <span>Unanswered calls, after minutes</span>
          <input
            type="number"
            min={0}
            step="any"
            placeholder="wait for ever"
            value={minutes}
            onChange={(event) => setMinutes(event.target.value)}
          />
        </label>
        <label className="field">
          <span>are then</span>
          <select value={onTimeout} onChange={(event) => setOnTimeout(event.target.value as Policy["onTimeout"])}>
            <option value="deny">denied</option>
            <option value="approve">approved</option>
          </select>
        </label>
      </div>
      <Refusal problem={save.problem} />
      <div>
        <button type="submit" className="button" disabled={save.busy}>
          Save the policy
        </button>
      </div>
    </form>
  );
}
