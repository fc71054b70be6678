import { ChevronRightIcon } from "lucide-react";
import { memo, type ReactNode, useMemo, useState } from "react";
import type { Image, ThreadEvent } from "@/api/types";
import type { ThreadNow } from "@/live/thread";
import { ModelCallButton } from "@/run/ModelCall";
import { EventTraces } from "@/run/Traces";
import { clock, duration, isActive, money, number } from "@/text/format";
import Markdown from "@/ui/Markdown";
import { CallItem } from "@/views/chat/CallItem";
import { EditMessage } from "@/views/chat/EditMessage";
import css from "@/views/chat/Transcript.module.css";
import { type Entry, transcript } from "@/views/chat/transcript";

const SHOWN = 120;

interface Props {
  agency: string;
  thread: string;
  now: ThreadNow;
  /** The thread that started it, if it is a child. */
  by: string | null;
  /** Inside another transcript: without ways to change something. */
  nested?: boolean;
}

/** What was said in a thread, and what is being said. */
export function Transcript({ agency, thread, now, by, nested = false }: Props) {
  const [shown, setShown] = useState(SHOWN);
  const { state, envelope, log, run, speech, sent } = now;
  const running = isActive(run?.status);
  const entries = useMemo(
    () =>
      state === null
        ? []
        : transcript({
            messages: state.messages,
            subagents: state.subagents ?? [],
            pending: envelope?.meta.pendingToolCalls ?? [],
            events: log.events,
            complete: log.before === 0,
            running,
          }),
    [state, envelope, log, running],
  );
  if (state === null) return null;
  const hidden = Math.max(0, entries.length - shown);
  // Until its message is the last of the transcript, what the model is saying stands in its place.
  const isSpeaking = speech !== null && speech.text !== "" && state.messages.at(-1)?.role !== "assistant";
  const silent = entries.length === 0 && sent.length === 0 && !running;
  return (
    <>
      {hidden > 0 && (
        <button type="button" className={`button quiet ${css.earlier}`} onClick={() => setShown(shown + SHOWN)}>
          Show earlier messages ({number(hidden)})
        </button>
      )}
      <div role="log" aria-label="Messages" aria-busy={isSpeaking} className={css.log}>
        {entries.slice(hidden).map((entry, at) => (
          <EntryView
            key={entry.key}
            agency={agency}
            thread={thread}
            entry={entry}
            who={hidden + at === 0 && by ? by : whoOf(entry, state.agentType)}
            editable={!nested && entry.role === "user" && entry.origin === null && by === null}
          />
        ))}
        {isSpeaking && (
          <Article by="assistant" who={state.agentType} live>
            <Markdown text={speech.text} streaming />
          </Article>
        )}
        {sent.map((message) => (
          <Article key={message.key} by="user" who={running ? `You · ${WHEN[message.when]}` : "You"} sent>
            <p className={css.plain}>{message.text}</p>
          </Article>
        ))}
      </div>
      <Trouble now={now} />
      {run?.status === "error" && <WhyFailed agency={agency} thread={thread} events={log.events} />}
      {running && !isSpeaking && run?.status === "running" && <p className={css.working} aria-hidden="true" />}
      {silent && <p className={css.silent}>Nothing was said yet.{nested ? "" : " Write the first message below."}</p>}
    </>
  );
}

const WHEN = {
  next_step: "joins at the next step",
  next_run: "queued for the next run",
  now: "interrupts",
} as const;

function whoOf({ role, origin }: Entry, agent: string): string {
  return origin ?? { user: "You", assistant: agent, tool: "Tool", system: "System" }[role];
}

interface ArticleProps {
  by: string;
  who: string;
  children: ReactNode;
  live?: boolean;
  sent?: boolean;
  side?: ReactNode;
}

function Article({ by, who, children, live, sent, side }: ArticleProps) {
  return (
    <article
      className={css.entry}
      data-role={by}
      data-live={live || undefined}
      data-sent={sent || undefined}
      aria-label={who}
    >
      <header className={css.head}>
        <span className={css.who}>{who}</span>
        {side}
      </header>
      {children}
    </article>
  );
}

interface EntryProps {
  agency: string;
  thread: string;
  entry: Entry;
  who: string;
  editable: boolean;
}

function EntryView({ agency, thread, entry, who, editable }: EntryProps) {
  const { spent } = entry;
  const side = (
    <>
      {spent && (
        <span className={css.spent}>
          {[spent.ms === null ? "" : duration(spent.ms), `${number(spent.tokens)} tokens`, costOf(spent.costUsd)]
            .filter(Boolean)
            .join(" · ")}
        </span>
      )}
      {spent && <ModelCallButton agency={agency} thread={thread} seq={spent.seq} quiet />}
      {editable && entry.id !== "" && (
        <EditMessage agency={agency} thread={thread} message={entry.id} text={entry.text} />
      )}
    </>
  );
  return (
    <Article by={entry.origin === null ? entry.role : "note"} who={who} side={side}>
      {entry.thinking && <Thinking text={entry.thinking} />}
      {entry.images.length > 0 && <Pictures images={entry.images} />}
      {entry.text &&
        (entry.role === "assistant" ? (
          <Markdown text={entry.text} />
        ) : (
          <p className={`${css.plain} text`}>{entry.text}</p>
        ))}
      {entry.calls.length > 0 && (
        <ul className={css.calls}>
          {entry.calls.map((call) => (
            <CallItem key={call.id} agency={agency} thread={thread} call={call} />
          ))}
        </ul>
      )}
    </Article>
  );
}

function costOf(usd: number | null): string {
  return usd === 0 || usd === null ? "" : money(usd);
}

const Thinking = memo(function Thinking({ text }: { text: string }) {
  return (
    <details className={css.thinking}>
      <summary>
        <ChevronRightIcon size={12} />
        Thinking
      </summary>
      <div className={css.thought}>{text}</div>
    </details>
  );
});

const Pictures = memo(function Pictures({ images }: { images: readonly Image[] }) {
  return (
    <div className={css.pictures}>
      {images.map((image, at) =>
        image.data ? (
          <img key={at} src={`data:${image.mediaType};base64,${image.data}`} alt={`Attached, ${at + 1}`} />
        ) : (
          <span key={at} className="faint mono">
            {image.url}
          </span>
        ),
      )}
    </div>
  );
});

/** What has ended the run: the traceback, if code has, or the model call that failed. */
function WhyFailed({ agency, thread, events }: { agency: string; thread: string; events: readonly ThreadEvent[] }) {
  const failed = events.findLast(({ type }) => type === "agent.error");
  const asked = events.findLast(({ type }) => type === "model.completed");
  if (!failed) return null;
  const isModels = asked?.data.error !== undefined && asked.data.runId === failed.data.runId;
  return (
    <>
      <EventTraces agency={agency} thread={thread} seq={failed.seq} />
      {isModels && <ModelCallButton agency={agency} thread={thread} seq={asked.seq} />}
    </>
  );
}

/** What went wrong, and what comes next. */
function Trouble({ now: { trouble, envelope, run } }: { now: ThreadNow }) {
  let words = "";
  if (trouble?.retryAt) {
    words = `The model failed: ${trouble.message} (${trouble.code}). It is asked again at ${clock(trouble.retryAt)}.`;
  } else if (run?.status === "canceled") {
    words = "The run was canceled. A new message begins another.";
  } else if (run?.status === "error") {
    const [error] = envelope?.errors ?? [];
    if (error) words = `The run ended: ${error.message} (${error.code}). Retry it, or write a message.`;
  }
  return (
    <p className={css.trouble} role="status" data-tone={run?.status === "canceled" ? "idle" : "bad"} hidden={!words}>
      {words}
    </p>
  );
}
