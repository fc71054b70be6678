import { ChevronRightIcon } from "lucide-react";
import { useState } from "react";
import { useThread, useThreadSummary } from "@/live/hooks";
import { Link } from "@/router/router";
import { to } from "@/router/routes";
import { Section } from "@/run/Section";
import { TodoList } from "@/run/TodoList";
import { CallTraces } from "@/run/Traces";
import { planBrief, todosOf } from "@/run/todos";
import { brief, duration, money, pretty, statusOf, type Tone } from "@/text/format";
import { Loading } from "@/ui/Empty";
import { Mark } from "@/ui/Status";
import { useNow } from "@/ui/useNow";
import css from "@/views/chat/CallItem.module.css";
import { Transcript } from "@/views/chat/Transcript";
import type { Call, CallState, Verdict } from "@/views/chat/transcript";

const STATES: Record<CallState, [Tone, string]> = {
  planned: ["idle", "to come"],
  waiting: ["wait", "waits for you"],
  running: ["running", "running"],
  done: ["ok", "done"],
  failed: ["bad", "failed"],
  denied: ["idle", "denied"],
  canceled: ["idle", "canceled"],
};

/** Decisions after which a call has a result, and its tool did not run. */
const NOT_RUN: Record<string, [Tone, string]> = {
  respond: ["idle", "did not run"],
  happened: ["ok", "did not run again"],
};

const VERDICTS: Record<string, string> = {
  approve: "approved",
  always: "approved for always",
  edit: "edited",
  deny: "denied",
  respond: "answered",
  rerun: "run again",
  happened: "confirmed",
};

/** What was decided on a call, and who did. */
function verdictIn({ decision, by, late }: Verdict): string {
  const what = VERDICTS[decision] ?? decision;
  return late ? `${what}: no person decided in time` : `${what} by ${by ?? "a person"}`;
}

/** A call of a tool: in one line, with all of it inside, and the thread of a subagent opened in place. */
export function CallItem({ agency, thread, call }: { agency: string; thread: string; call: Call }) {
  const [open, setOpen] = useState(false);
  const { verdict } = call;
  const [tone, told] =
    verdict && call.state === "done" ? (NOT_RUN[verdict.decision] ?? STATES.done) : STATES[call.state];
  const todos = todosOf(call.name, call.args);
  const words = call.state === "running" && call.waitsFor ? `waits for ${call.waitsFor}` : told;
  return (
    <li className={css.call} data-call={call.state}>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary className={css.line}>
          <ChevronRightIcon size={12} />
          <code className={css.name}>{call.name}</code>
          <span className={css.brief}>{todos ? planBrief(todos) : brief(verdict?.args ?? call.args)}</span>
          {verdict && <span className="tag">{verdictIn(verdict)}</span>}
          <Took call={call} />
          <Mark tone={tone}>{words}</Mark>
        </summary>
        <div className={css.inside}>
          {verdict?.args != null && <Section title="Arguments that ran" text={pretty(verdict.args)} />}
          {todos ? (
            <TodoList todos={todos} />
          ) : (
            <Section title={verdict?.args != null ? "Arguments as proposed" : "Arguments"} text={pretty(call.args)} />
          )}
          {call.result !== null && <Section title="Result" text={call.result} />}
          {open && call.isLatest && call.state !== "planned" && (
            <CallTraces agency={agency} thread={thread} call={call.id} changed={call.state} />
          )}
        </div>
      </details>
      {call.child && <Child agency={agency} call={call} id={call.child.childThreadId} agent={call.child.agentType} />}
    </li>
  );
}

function Took({ call }: { call: Call }) {
  if (call.ms !== null) return <span className={css.took}>{duration(call.ms)}</span>;
  return call.state === "running" && call.startedAt ? <Going since={call.startedAt} /> : null;
}

function Going({ since }: { since: string }) {
  const ms = useNow() - Date.parse(since);
  return <span className={css.took}>{ms < 1_000 ? "" : duration(ms)}</span>;
}

/** A subagent's thread: a line with the way there, and its transcript in place when it is opened. */
function Child({ agency, call, id, agent }: { agency: string; call: Call; id: string; agent: string }) {
  const [open, setOpen] = useState(false);
  const summary = useThreadSummary(agency, id);
  const [tone, words] = summary ? statusOf(summary) : ["running" as const, "starting"];
  return (
    <div className={css.child}>
      <div className={css.childLine}>
        <button type="button" className={css.toggle} aria-expanded={open} onClick={() => setOpen(!open)}>
          <ChevronRightIcon size={12} />
          {open ? "Hide" : "Show"} {agent}’s work
        </button>
        <Link href={to.thread(agency, id)}>{agent}’s thread</Link>
        <span className="grow" />
        {summary && summary.costUsd !== 0 && <span className="faint num">{money(summary.costUsd)}</span>}
        {call.state !== "done" && <Mark tone={tone}>{words}</Mark>}
      </div>
      {open && <ChildTranscript agency={agency} id={id} />}
    </div>
  );
}

function ChildTranscript({ agency, id }: { agency: string; id: string }) {
  const now = useThread(agency, id);
  if (now.connection === "ended" && now.problem) return <p className="bad">{now.problem.message}</p>;
  return (
    <div className={css.inPlace}>
      {now.state === null ? <Loading /> : <Transcript agency={agency} thread={id} now={now} by="Order" nested />}
    </div>
  );
}
