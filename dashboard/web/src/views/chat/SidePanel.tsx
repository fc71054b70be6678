import { FileIcon } from "lucide-react";
import type { Limits, RunEnvelope } from "@/api/types";
import { useAgency } from "@/live/hooks";
import type { ThreadNow } from "@/live/thread";
import { Link } from "@/router/router";
import { to } from "@/router/routes";
import { activityNow, activityWords, cancelerWords, capabilityWords, sourceWords, waitedMs } from "@/run/facts";
import { TodoList } from "@/run/TodoList";
import { count, duration, isActive, money, number, statusOf, total } from "@/text/format";
import { Dot } from "@/ui/Status";
import { useNow } from "@/ui/useNow";
import { PlanEditor } from "@/views/chat/PlanEditor";
import css from "@/views/chat/SidePanel.module.css";

/** Beside the chat: the plan as it is worked off, the run and its limits, subagents and files. */
export function SidePanel({ agency, thread, now }: { agency: string; thread: string; now: ThreadNow }) {
  const { state } = now;
  const todos = state?.todos ?? [];
  const files = Object.keys(state?.files ?? {});
  const children = state?.subagents ?? [];
  const unavailable = Object.entries(state?.unavailable ?? {});
  const { threads } = useAgency(agency);
  const done = todos.filter((each) => each.status === "completed").length;
  return (
    <aside className={`${css.panel} scroll`} aria-label="Plan, run and files">
      <section>
        <div className="row">
          <h2 className="title grow">
            Plan {todos.length > 0 && <span className="faint num">{`${done} of ${todos.length}`}</span>}
          </h2>
          {state?.todos && <PlanEditor agency={agency} thread={thread} todos={todos} />}
        </div>
        {todos.length === 0 && <p className="faint">No plan yet.</p>}
        <TodoList todos={todos} />
      </section>
      <RunSection agency={agency} now={now} />
      {unavailable.length > 0 && (
        <section>
          <h2 className="title">
            Not available <span className="faint num">{unavailable.length}</span>
          </h2>
          <ul className={css.list}>
            {unavailable.map(([name, problem]) => (
              <li key={name}>
                <span className="tag">{name}</span> <span className="faint">{problem}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {children.length > 0 && (
        <section>
          <h2 className="title">
            Subagents <span className="faint num">{children.length}</span>
          </h2>
          <ul className={css.list}>
            {children.map((child) => {
              const known = threads.get(child.childThreadId);
              const [tone, words] = known ? statusOf(known) : (["idle", child.status] as const);
              return (
                <li key={child.childThreadId}>
                  <Link href={to.thread(agency, child.childThreadId)}>
                    <Dot tone={tone} />
                    <span className="cut grow">{child.agentType}</span>
                    {child.background && <span className="tag">background</span>}
                    <span className="faint">{words}</span>
                  </Link>
                </li>
              );
            })}
          </ul>
        </section>
      )}
      <section>
        <h2 className="title">Files {files.length > 0 && <span className="faint num">{files.length}</span>}</h2>
        {files.length === 0 && <p className="faint">No files yet.</p>}
        <ul className={css.list}>
          {files.map((path) => (
            <li key={path}>
              <Link href={`${to.thread(agency, thread, "files")}?file=${encodeURIComponent(path)}`}>
                <FileIcon size={13} />
                <span className="cut">{path}</span>
              </Link>
            </li>
          ))}
        </ul>
      </section>
    </aside>
  );
}

function RunSection({ agency, now }: { agency: string; now: ThreadNow }) {
  const { envelope, state, run, loadedAt } = now;
  const { blueprints } = useAgency(agency);
  const clock = useNow();
  if (envelope === null) return null;
  const { turns, tokensUsed, costUsd, durationMs, children, model, attempts } = envelope.meta;
  const allowed: Limits = blueprints.find((each) => each.name === state?.agentType)?.limits ?? {};
  const going = run?.status === "running" ? Math.max(0, clock - loadedAt) : 0;
  const below = total(children.tokensUsed);
  const waited = waitedMs(now, durationMs + going, clock);
  return (
    <section>
      <h2 className="title">{isActive(run?.status) ? "Run" : "Last run"}</h2>
      <dl className={css.figures}>
        <Figure name="Turns" value={number(turns)} used={turns} of={allowed.turns} show={number} />
        <Figure
          name="Tokens"
          value={number(total(tokensUsed))}
          used={total(tokensUsed)}
          of={allowed.tokens}
          show={number}
          more={`${number(tokensUsed.input)} in (${number(tokensUsed.cachedInput)} from the cache), ${number(tokensUsed.output)} out`}
        />
        <Figure name="Cost" value={money(costUsd)} used={costUsd ?? 0} of={allowed.costUsd} show={money} />
        <Figure
          name="Working time"
          value={duration(durationMs + going)}
          used={durationMs + going}
          of={allowed.timeMs}
          show={duration}
          more="Models, tools and middleware at work. Limits count this, and not the waiting."
        />
        {waited >= 1_000 && (
          <Figure
            name="Waiting"
            value={duration(waited)}
            more="For a person, for subagents, for the outside, or for a paused run to be resumed."
          />
        )}
        {below > 0 && <Figure name="Of subagents" value={`${number(below)} tokens · ${money(children.costUsd)}`} />}
        <Figure name="Model" value={model ?? state?.model ?? ""} />
        <RunFacts agency={agency} now={now} envelope={envelope} />
      </dl>
      <Warnings envelope={envelope} />
      {attempts.length > 0 && (
        <details className={css.attempts}>
          <summary>{count(attempts.length, "failed attempt")}</summary>
          <ul>
            {attempts.map((attempt, at) => (
              <li key={at}>
                turn {attempt.turn}, {attempt.model}: {attempt.message} ({attempt.code})
              </li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

/** What a run tells about itself beside what it has used. */
function RunFacts({ agency, now, envelope }: { agency: string; now: ThreadNow; envelope: RunEnvelope }) {
  const clock = useNow();
  const { waitingFor, canceledBy, resultSource, capabilitiesUsed, retryOf, recoveries } = envelope.meta;
  const activity = activityNow(now);
  const used = capabilityWords(capabilitiesUsed);
  const { threads } = useAgency(agency);
  return (
    <>
      {activity && (
        <Figure
          name="Now"
          value={activityWords(activity)}
          more={`Last sign of life ${duration(Math.max(0, clock - activity.heartbeatAt))} ago`}
        />
      )}
      {waitingFor && (
        <div>
          <dt>Waits for you</dt>
          <dd>
            <Link href={to.thread(agency, waitingFor.threadId)}>
              {threads.get(waitingFor.threadId)?.agentType ?? "a subagent"}
            </Link>
          </dd>
        </div>
      )}
      {resultSource && <Figure name="Result from" value={sourceWords(resultSource)} />}
      {retryOf && <Figure name="Retry of" value={`run ${retryOf.split(".").at(-1)}`} />}
      {recoveries > 0 && (
        <Figure
          name="Recovered"
          value={count(recoveries, "time")}
          more="A process died or was stopped while the run was at work, and another one went on"
        />
      )}
      {canceledBy && <Figure name="Canceled by" value={cancelerWords(canceledBy)} />}
      {used.length > 0 && <Figure name="Used" value={used.join(", ")} />}
    </>
  );
}

/** What went wrong, and what the run has survived. Who canceled it is told elsewhere. */
function Warnings({ envelope: { errors: all, meta } }: { envelope: RunEnvelope }) {
  const errors = all.filter(({ kind }) => kind !== "canceled");
  return (
    <>
      {errors.length > 0 && (
        <ul className={css.warnings} aria-label="Errors">
          {errors.map((error) => (
            <li key={error.code}>
              <span className="bad">{error.code}</span>{" "}
              {[error.kind, error.providerStatus && `HTTP ${error.providerStatus}`, error.requestId]
                .filter(Boolean)
                .join(" · ")}
            </li>
          ))}
        </ul>
      )}
      {meta.warnings.length > 0 && (
        <details className={css.attempts}>
          <summary>{count(meta.warnings.length, "warning")}</summary>
          <ul>
            {meta.warnings.map((warning, at) => (
              <li key={at}>
                {warning.message} ({warning.kind})
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

interface FigureProps {
  name: string;
  value: string;
  used?: number;
  of?: number | null | undefined;
  show?(n: number): string;
  more?: string;
}

function Figure({ name, value, used = 0, of, show, more }: FigureProps) {
  const part = of ? Math.min(1, used / of) : null;
  return (
    <div title={more}>
      <dt>{name}</dt>
      <dd>
        {value}
        {of && show && <span className="faint"> of {show(of)}</span>}
      </dd>
      {part !== null && (
        <span className={css.bar} data-full={part > 0.8 || undefined} aria-hidden="true">
          <span style={{ width: `${100 * part}%` }} />
        </span>
      )}
    </div>
  );
}
