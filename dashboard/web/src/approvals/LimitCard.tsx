import { type FormEvent, useState } from "react";
import { getLayers, putBudget } from "@/api/agencies";
import { useAction } from "@/api/hooks";
import { sentence } from "@/api/problem";
import { liftLimits } from "@/api/threads";
import type { Limits, RunEnvelope } from "@/api/types";
import css from "@/approvals/CallCard.module.css";
import type { Exhausted } from "@/approvals/waiting";
import { Link } from "@/router/router";
import { to } from "@/router/routes";
import { number, total } from "@/text/format";
import { Refusal } from "@/ui/Refusal";

type Meta = RunEnvelope["meta"];

/** What a code says is used up: the limit's name, its unit, and what the run has used of it. */
const LIMITS: readonly [string, keyof Limits, string, (meta: Meta) => number | null][] = [
  ["TURNS", "turns", "turns", ({ turns }) => turns],
  ["TIME", "timeMs", "ms", ({ durationMs }) => durationMs],
  ["TOKEN", "tokens", "tokens", ({ tokensUsed }) => total(tokensUsed)],
  ["COST", "costUsd", "US dollars", ({ costUsd }) => costUsd],
];

interface Props {
  agency: string;
  exhausted: Exhausted;
  /** Of the run, where it is known. */
  envelope: RunEnvelope | null;
  named: boolean;
  onDecided(threadId: string): void;
}

/** A run that has used up a limit, or its agency's budget, goes on under a new one. */
export function LimitCard({ agency, exhausted, envelope, named, onDecided }: Props) {
  const { code, threadId, agentType } = exhausted;
  const [, name, unit, usedOf] = LIMITS.find(([word]) => code.includes(word)) ?? (LIMITS[0] as (typeof LIMITS)[number]);
  const shared = code.startsWith("ERR_AGENCY_");
  const used = shared || envelope === null ? null : usedOf(envelope.meta);
  const removes = code.endsWith("COST_UNKNOWN"); // no sum would do: that limit has to go
  const [text, setText] = useState(used === null ? "" : String(2 * used));
  const action = useAction(async () => {
    const change: Limits = { [name]: removes ? null : Number(text) };
    if (shared) {
      const layers = await getLayers(agency);
      await putBudget(agency, { ...layers?.budget[layers.yours], ...change });
    } else await liftLimits(agency, threadId, change);
    onDecided(threadId);
  });
  const said = envelope?.errors[0]?.message;
  return (
    <form
      className={css.card}
      aria-label={shared ? "The agency’s budget is used up" : "A limit is reached"}
      tabIndex={-1}
      data-waiting
      onSubmit={(event: FormEvent) => {
        event.preventDefault();
        void action.run();
      }}
    >
      <p className={css.title}>
        <strong>{shared ? "The agency has used up its budget" : "The run has reached a limit"}</strong>
        {named && (
          <span className="soft">
            of <Link href={to.thread(agency, threadId)}>{agentType}</Link>
          </span>
        )}
      </p>
      <p className="soft">
        {used === null
          ? said
            ? sentence(said)
            : `${code}.`
          : `It has used ${number(used)} ${unit}. Give it more, or stop it.`}
      </p>
      <Refusal problem={action.problem} />
      <div className="row wrap">
        {!removes && (
          <label className="row">
            <span className="soft">{shared ? `New budget of the agency in ${unit}` : `New limit in ${unit}`}</span>
            <input
              type="number"
              className="num"
              style={{ width: 130 }}
              required
              min={name === "costUsd" ? 0 : 1}
              step={name === "costUsd" ? "any" : 1}
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
          </label>
        )}
        <button type="submit" className="button primary" disabled={action.busy}>
          {removes ? "Go on without a limit of cost" : "Go on"}
        </button>
      </div>
    </form>
  );
}
