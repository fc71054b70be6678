import { useEffect, useId, useState } from "react";
import { getStatistics } from "@/api/agencies";
import { useLoad } from "@/api/hooks";
import type { RunFigures, Statistics } from "@/api/types";
import { useAgency } from "@/live/hooks";
import { count, duration, money, number, short, total } from "@/text/format";
import { Failed } from "@/ui/Failed";
import { Plot, type Series } from "@/ui/Plot";
import css from "@/views/home/StatisticsSection.module.css";

type Range = "24 hours" | "7 days" | "30 days" | "1 year";

const RANGES: Record<Range, { by: "hour" | "day"; days: number }> = {
  "24 hours": { by: "hour", days: 1 },
  "7 days": { by: "hour", days: 7 },
  "30 days": { by: "day", days: 30 },
  "1 year": { by: "day", days: 365 },
};
const HOUR = 3_600_000;
const AGAIN_MS = 60_000;
const SOON_MS = 1_500;
const TOOLS = 8;

/** Runs, tokens, cost, working times and failing tools of an agency over time. */
export function StatisticsSection({ agency }: { agency: string }) {
  const [range, setRange] = useState<Range>("24 hours");
  const [agent, setAgent] = useState("");
  const { blueprints } = useAgency(agency);
  const { by, days } = RANGES[range];
  const { data, problem, reload } = useLoad(
    `${agency} ${range} ${agent}`,
    () => {
      const length = by === "hour" ? HOUR : 24 * HOUR;
      const since = new Date(Date.now() - days * 24 * HOUR + length).toISOString();
      return getStatistics(agency, { by, since, ...(agent ? { agent } : {}) });
    },
    { everyMs: AGAIN_MS },
  );
  const behind = data?.behind ?? 0;
  useEffect(() => {
    if (!behind) return;
    const timer = setTimeout(() => void reload(), SOON_MS);
    return () => clearTimeout(timer);
  }, [behind, reload]);
  const known = [...new Set([...blueprints.map(({ name }) => name), ...(agent ? [agent] : [])])].sort();
  return (
    <section className={css.section} aria-label="Statistics">
      <header className={css.head}>
        <h2 className={css.heading}>Over time</h2>
        <div className={css.ranges} role="group" aria-label="How far back">
          {(Object.keys(RANGES) as Range[]).map((each) => (
            <button key={each} type="button" aria-pressed={range === each} onClick={() => setRange(each)}>
              {each}
            </button>
          ))}
        </div>
        <select
          aria-label="Agent"
          className={css.agents}
          value={agent}
          onChange={(event) => setAgent(event.target.value)}
        >
          <option value="">All agents</option>
          {known.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
        {behind > 0 && (
          <span className="faint" role="status">
            {count(behind, "thread is", "threads are")} still being read …
          </span>
        )}
      </header>
      {problem && !data ? (
        <Failed problem={problem} retry={() => void reload()} />
      ) : data ? (
        <Plots found={data} chosen={agent} />
      ) : (
        <div className={css.wait} />
      )}
    </section>
  );
}

function Plots({ found, chosen }: { found: Statistics; chosen: string }) {
  const { spans, by, total: all, agents, tools } = found;
  if (all.runs === 0 && total(all.tokensUsed) === 0) {
    return <p className={`${css.none} faint`}>Nothing has run in this time.</p>;
  }
  const at = spans.map((span) => span.at);
  const of = (pick: (span: Statistics["spans"][number]) => number | null) => spans.map(pick);
  const runs: Series[] = [
    { name: "completed", tone: "ok", values: of(({ completed }) => completed) },
    { name: "failed", tone: "bad", values: of(({ failed }) => failed) },
    { name: "canceled", tone: "idle", values: of(({ canceled }) => canceled) },
  ];
  const tokens: Series[] = [
    { name: "input", tone: "tool", values: of(({ tokensUsed }) => tokensUsed.input) },
    { name: "output", tone: "model", values: of(({ tokensUsed }) => tokensUsed.output) },
  ];
  const times: Series[] = [
    { name: "half of the runs (p50)", tone: "tool", values: of(({ durationP50Ms }) => durationP50Ms) },
    { name: "95 % of the runs (p95)", tone: "approval", values: of(({ durationP95Ms }) => durationP95Ms) },
  ];
  const p = (ms: number | null) => (ms === null ? "–" : duration(ms));
  return (
    <div className={css.plots}>
      <Plot title="Runs" sum={number(all.runs)} kind="bars" at={at} by={by} series={runs} show={short} />
      <Plot
        title="Tokens"
        sum={short(total(all.tokensUsed))}
        kind="bars"
        at={at}
        by={by}
        series={tokens}
        show={short}
      />
      <Plot
        title="Cost"
        sum={`${costOf(all)}${all.unpriced && all.costUsd ? ` and ${count(all.unpriced, "call")} without a price` : ""}`}
        kind="bars"
        at={at}
        by={by}
        series={[{ name: "cost", tone: "child", values: of(({ costUsd }) => costUsd) }]}
        show={money}
      />
      <Plot
        title="Working time of a run"
        sum={`p50 ${p(all.durationP50Ms)} · p95 ${p(all.durationP95Ms)}`}
        kind="lines"
        at={at}
        by={by}
        series={times}
        show={duration}
      />
      <Tools tools={tools} />
      {!chosen && agents.length > 0 && <Agents agents={agents} />}
    </div>
  );
}

/** What is not known is not zero. */
function costOf({ costUsd, unpriced }: RunFigures): string {
  return unpriced && !costUsd ? "unknown" : money(costUsd);
}

function Tools({ tools }: { tools: Statistics["tools"] }) {
  const id = useId();
  const failing = tools.filter(({ errors }) => errors > 0).slice(0, TOOLS);
  const calls = tools.reduce((sum, each) => sum + each.calls, 0);
  const most = Math.max(1, ...failing.map(({ errors }) => errors));
  return (
    <figure className={css.card} aria-labelledby={id}>
      <figcaption id={id}>
        <strong>Errors by tool</strong>
        <span className="faint num">{`${number(tools.reduce((sum, each) => sum + each.errors, 0))} of ${count(calls, "call")}`}</span>
      </figcaption>
      {failing.length === 0 ? (
        <p className="faint">{calls ? "No call has failed." : "No tool was called."}</p>
      ) : (
        <table className={css.table}>
          <thead className="unseen">
            <tr>
              <th scope="col">Tool</th>
              <th scope="col">Share</th>
              <th scope="col">Errors of calls</th>
            </tr>
          </thead>
          <tbody>
            {failing.map(({ tool, errors, calls: made }) => (
              <tr key={tool}>
                <th scope="row">
                  <code className="cut">{tool}</code>
                </th>
                <td className={css.lane}>
                  <span className={css.error} style={{ width: `${(100 * errors) / most}%` }} />
                </td>
                <td className="num faint">{`${number(errors)} of ${number(made)}`}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </figure>
  );
}

function Agents({ agents }: { agents: Statistics["agents"] }) {
  const id = useId();
  return (
    <figure className={css.card} aria-labelledby={id}>
      <figcaption id={id}>
        <strong>By agent</strong>
      </figcaption>
      <div className={css.wide}>
        <table className={css.table}>
          <thead>
            <tr>
              <th scope="col">Agent</th>
              <th scope="col">Runs</th>
              <th scope="col">Failed</th>
              <th scope="col">Tokens</th>
              <th scope="col">Cost</th>
              <th scope="col">p95</th>
            </tr>
          </thead>
          <tbody>
            {agents.map((each) => (
              <tr key={each.agentType}>
                <th scope="row">{each.agentType}</th>
                <td className="num">{number(each.runs)}</td>
                <td className="num">{number(each.failed)}</td>
                <td className="num">{short(total(each.tokensUsed))}</td>
                <td className="num">{costOf(each)}</td>
                <td className="num">{each.durationP95Ms === null ? "–" : duration(each.durationP95Ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
}
