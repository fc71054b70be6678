import { ArrowLeftRightIcon } from "lucide-react";
import { useMemo, useState } from "react";
import { useLoad } from "@/api/hooks";
import { getRun, getState, getThread } from "@/api/threads";
import type { AgentState, Message, RunEnvelope, ThreadSummary } from "@/api/types";
import { useAgency } from "@/live/hooks";
import { Link, useQuery } from "@/router/router";
import { to } from "@/router/routes";
import { brief, count, dateTime, duration, money, number, statusOf, total } from "@/text/format";
import { Empty, Loading } from "@/ui/Empty";
import { IconButton } from "@/ui/IconButton";
import Markdown from "@/ui/Markdown";
import { PageHead } from "@/ui/PageHead";
import css from "@/views/compare/CompareView.module.css";
import { type Calls, callsOf, compared } from "@/views/compare/comparison";

interface Side {
  summary: ThreadSummary;
  state: AgentState;
  run: RunEnvelope | null;
}

async function load(agency: string, thread: string): Promise<Side> {
  const [summary, { state, run }] = await Promise.all([getThread(agency, thread), getState(agency, thread)]);
  return { summary, state, run: run.runId ? await getRun(agency, thread) : null };
}

/** Two threads side by side. Which ones is in the address, so that a link shows the same. */
export default function CompareView({ agency }: { agency: string }) {
  const [a, setA] = useQuery("a");
  const [b, setB] = useQuery("b");
  const { threads } = useAgency(agency);
  const seqs = (id: string | null) => (id === null ? null : (threads.get(id)?.seq ?? null));
  const left = useLoad(a && `${agency}/${a}`, () => load(agency, a ?? ""), { changed: seqs(a) });
  const right = useLoad(b && `${agency}/${b}`, () => load(agency, b ?? ""), { changed: seqs(b) });
  const swap = () => {
    setA(b);
    setB(a);
  };
  const problem = left.problem ?? right.problem;
  return (
    <>
      <PageHead title="Compare" />
      <section className="page scroll" aria-label="Comparison">
        <div className={css.choices}>
          <Choice label="One thread" agency={agency} value={a} onChange={setA} />
          <IconButton icon={ArrowLeftRightIcon} label="Swap the two" small onClick={swap} />
          <Choice label="The other thread" agency={agency} value={b} onChange={setB} />
        </div>
        {!a || !b ? (
          <Empty title="Choose two threads.">
            <p>A fork and its original, say: you see where they part, and what each of them said, called and used.</p>
          </Empty>
        ) : problem ? (
          <Empty title={problem.message} alert />
        ) : left.data === undefined || right.data === undefined ? (
          <Loading what="Loading both threads" />
        ) : (
          <Compared agency={agency} left={left.data} right={right.data} />
        )}
      </section>
    </>
  );
}

interface ChoiceProps {
  label: string;
  agency: string;
  value: string | null;
  onChange(id: string | null): void;
}

function Choice({ label, agency, value, onChange }: ChoiceProps) {
  const { threads } = useAgency(agency);
  const listed = useMemo(
    () => [...threads.values()].sort((one, other) => other.createdAt.localeCompare(one.createdAt)),
    [threads],
  );
  const known = value === null || threads.has(value);
  return (
    <select aria-label={label} value={value ?? ""} onChange={(event) => onChange(event.target.value || null)}>
      <option value="">{label} …</option>
      {!known && <option value={value ?? ""}>{value}</option>}
      {listed.map((each) => (
        <option key={each.id} value={each.id}>
          {`${each.title ?? each.agentType} · ${dateTime(each.createdAt)} · ${each.id}`}
        </option>
      ))}
    </select>
  );
}

function Compared({ agency, left, right }: { agency: string; left: Side; right: Side }) {
  const { common, pairs } = useMemo(
    () => compared(left.state.messages, right.state.messages),
    [left.state.messages, right.state.messages],
  );
  const [shown, setShown] = useState(false);
  const calls = [callsOf(pairs.map((each) => each.left)), callsOf(pairs.map((each) => each.right))] as const;
  return (
    <>
      <Figures agency={agency} left={left} right={right} calls={calls} />
      <p className={css.common} role="status">
        {pairs.length === 0
          ? `Both have the same ${count(common.length, "message")}.`
          : `${parted(left, right)}The first ${count(common.length, "message")} are the same.`}{" "}
        {common.length > 0 && (
          <button type="button" className="button quiet small" aria-expanded={shown} onClick={() => setShown(!shown)}>
            {shown ? "Hide them" : "Show them"}
          </button>
        )}
      </p>
      <ol className={css.messages} aria-label="Messages of both">
        {shown &&
          common.map((message, at) => (
            <li key={at} className={css.both}>
              <Said message={message} />
            </li>
          ))}
        {pairs.map((pair, at) => (
          <li key={common.length + at} className={css.pair}>
            <Said message={pair.left} />
            <Said message={pair.right} />
          </li>
        ))}
      </ol>
    </>
  );
}

function parted(left: Side, right: Side): string {
  for (const [fork, other] of [
    [right, left],
    [left, right],
  ] as const) {
    const origin = fork.summary.forkedFrom;
    if (origin?.threadId === other.summary.id) {
      return `The ${fork === right ? "right" : "left"} one was forked after event ${origin.seq} of the other. `;
    }
  }
  return "";
}

interface FiguresProps {
  agency: string;
  left: Side;
  right: Side;
  calls: readonly [Calls, Calls];
}

function Figures({ agency, left, right, calls }: FiguresProps) {
  const rows: [string, (side: Side, calls: Calls) => string][] = [
    ["Agent", ({ summary }) => summary.agentType],
    ["Status", ({ summary }) => statusOf(summary)[1]],
    ["Messages", ({ state }) => number(state.messages.length)],
    ["Calls since they part", (_, { byName }) => [...byName].map(([name, n]) => `${name} ${n}`).join(", ") || "none"],
    ["Failed calls", (_, { failed }) => number(failed)],
    ["Turns of the latest run", ({ run }) => number(run?.meta.turns ?? 0)],
    ["Time at work in it", ({ run }) => duration(run?.meta.durationMs ?? 0)],
    ["Tokens", ({ summary }) => number(total(summary.tokensUsed))],
    ["Cost", ({ summary }) => money(summary.costUsd)],
  ];
  const sides = [left, right] as const;
  return (
    <table className={css.figures}>
      <thead>
        <tr>
          <td />
          {sides.map(({ summary }, at) => (
            <th key={at} scope="col">
              <Link href={to.thread(agency, summary.id)}>{summary.title ?? summary.id}</Link>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, told]) => {
          const [one, other] = [told(left, calls[0]), told(right, calls[1])];
          return (
            <tr key={name} data-differs={one !== other || undefined}>
              <th scope="row">{name}</th>
              <td className="num">{one}</td>
              <td className="num">{other}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Said({ message }: { message: Message | null }) {
  if (message === null) return <div className={css.nothing} />;
  return (
    <div className={css.said} data-role={message.role}>
      <div className="faint">{message.role}</div>
      {message.content &&
        (message.role === "assistant" ? (
          <Markdown text={message.content} />
        ) : (
          <p className={css.text}>{message.content}</p>
        ))}
      {(message.toolCalls ?? []).map((call) => (
        <div key={call.id} className={css.call}>
          <span className="tag">{call.name}</span> <span className="mono">{brief(call.args)}</span>
        </div>
      ))}
    </div>
  );
}
