import { type FormEvent, type KeyboardEvent, useCallback, useRef, useState } from "react";
import { useAction } from "@/api/hooks";
import { Once } from "@/api/once";
import { Problem } from "@/api/problem";
import { decide } from "@/api/threads";
import type { Decision, Json } from "@/api/types";
import { ArgumentsEditor } from "@/approvals/ArgumentsEditor";
import css from "@/approvals/CallCard.module.css";
import type { Parsed } from "@/approvals/checkArguments";
import { approvalIdOf, type WaitingCall } from "@/approvals/waiting";
import { Link } from "@/router/router";
import { to } from "@/router/routes";
import { ago, duration, pretty } from "@/text/format";
import { readJson } from "@/ui/JsonField";
import { Refusal } from "@/ui/Refusal";
import { useNow } from "@/ui/useNow";

interface Props {
  agency: string;
  asked: WaitingCall;
  /** Whether to say whose call it is. */
  named: boolean;
  onDecided(threadId: string): void;
}

type Mode = "ask" | "edit" | "deny" | "respond" | "happened";

const RISKS = { low: "idle", medium: "wait", high: "bad" } as const;

/** One call that waits. All but a plain approval open a part of their own, so that no key or click decides by accident. A
 * call in doubt is not approved: it runs again, or it did happen. */
export function CallCard({ agency, asked, named, onDecided }: Props) {
  const { call, threadId, agentType } = asked;
  const inDoubt = call.kind === "in_doubt";
  const [mode, setMode] = useState<Mode>("ask");
  const [reason, setReason] = useState("");
  const [reply, setReply] = useState("");
  const [args, setArgs] = useState(() => JSON.stringify(call.args, null, 2));
  const checked = useRef<{ parsed: Parsed; faults: readonly string[] } | null>(null);
  const once = useRef(new Once());

  const deciding = useAction(async (decision: Decision) => {
    await decide(agency, threadId, once.current.body({ decisions: { [approvalIdOf(call)]: decision } }));
    onDecided(threadId);
  });

  const onChecked = useCallback((parsed: Parsed, faults: readonly string[]) => {
    checked.current = { parsed, faults };
  }, []);

  const edited = useAction(async () => {
    const { parsed, faults } = checked.current ?? {};
    if (!parsed || "problem" in parsed || faults?.length) throw new Problem(0, faults?.[0] ?? "It is being checked.");
    await deciding.run({ decision: "edit", args: parsed.value });
  });

  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (mode === "ask" && !inDoubt) void deciding.run({ decision: "approve" });
    if (mode === "happened") void deciding.run({ decision: "happened", result: resultOf(reply) });
    if (mode === "edit") void edited.run();
    if (mode === "deny") void deciding.run({ decision: "deny", ...(reason.trim() ? { reason: reason.trim() } : {}) });
    if (mode === "respond") void deciding.run({ decision: "respond", content: reply });
  };

  const onKeyDown = (event: KeyboardEvent<HTMLFormElement>) => {
    const target = event.target as HTMLElement;
    if (event.key === "Escape" && mode !== "ask") {
      setMode("ask");
      event.currentTarget.focus();
      event.stopPropagation();
      return;
    }
    if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) return submit(event);
    if (target.matches("textarea, input") || event.metaKey || event.ctrlKey || event.altKey || mode !== "ask") return;
    const keys: Record<string, () => void> = inDoubt
      ? { h: () => setMode("happened"), d: () => setMode("deny") }
      : {
          a: () => void deciding.run({ decision: "approve" }),
          e: () => setMode("edit"),
          d: () => setMode("deny"),
          r: () => setMode("respond"),
        };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };

  const back = (
    <button type="button" className="button quiet" onClick={() => setMode("ask")}>
      Back
    </button>
  );

  return (
    <form
      className={css.card}
      aria-label={`${call.name} waits for you`}
      tabIndex={-1}
      data-waiting
      data-risk={call.risk}
      onSubmit={submit}
      onKeyDown={onKeyDown}
    >
      <p className={css.title}>
        <code className={css.name}>{call.name}</code>
        <span className="tag" data-tone={RISKS[call.risk]}>
          {call.risk} risk
        </span>
        {inDoubt && (
          <span className="tag" data-tone="bad">
            in doubt: it may have happened
          </span>
        )}
        {named && (
          <span className="soft">
            asked by <Link href={to.thread(agency, threadId)}>{agentType}</Link>
          </span>
        )}
        {asked.since && <span className="faint">{ago(asked.since)}</span>}
        {call.expiresAt && <Deadline at={call.expiresAt} then={inDoubt ? "leave" : (call.onTimeout ?? "deny")} />}
      </p>
      {call.note && <p className="soft">{call.note}</p>}
      {mode !== "edit" && (
        <pre className={`${css.args} pre`} tabIndex={0}>
          {pretty(call.args)}
        </pre>
      )}
      {mode === "edit" && (
        <ArgumentsEditor
          agency={agency}
          thread={threadId}
          tool={call.name}
          text={args}
          onChange={setArgs}
          onChecked={onChecked}
        />
      )}
      {mode === "deny" && (
        <textarea
          rows={2}
          aria-label="Why it is denied"
          placeholder="Why? The agent reads this."
          value={reason}
          onChange={(event) => setReason(event.target.value)}
          autoFocus
        />
      )}
      {mode === "respond" && (
        <textarea
          rows={3}
          aria-label="Result for the agent"
          placeholder="The tool does not run; the agent gets this as its result."
          value={reply}
          required
          onChange={(event) => setReply(event.target.value)}
          autoFocus
        />
      )}
      {mode === "happened" && (
        <textarea
          rows={3}
          aria-label="What it returned"
          placeholder="What came of it, as text or JSON. The agent gets this as its result; the tool does not run again."
          value={reply}
          onChange={(event) => setReply(event.target.value)}
          autoFocus
        />
      )}
      <Refusal problem={edited.problem ?? deciding.problem} />
      <fieldset className={css.buttons} disabled={deciding.busy || edited.busy}>
        <legend className="unseen">Decisions</legend>
        {mode === "ask" && inDoubt && (
          <>
            <button type="button" className="button primary" aria-keyshortcuts="h" onClick={() => setMode("happened")}>
              It did happen …
            </button>
            <button type="button" className="button danger" onClick={() => void deciding.run({ decision: "rerun" })}>
              Run again
            </button>
            <button type="button" className="button" aria-keyshortcuts="d" onClick={() => setMode("deny")}>
              Do not run it again …
            </button>
          </>
        )}
        {mode === "happened" && (
          <>
            <button type="submit" className="button primary">
              It did happen
            </button>
            {back}
          </>
        )}
        {mode === "ask" && !inDoubt && (
          <>
            <button type="submit" className="button primary" aria-keyshortcuts="a">
              Approve
            </button>
            <button type="button" className="button" aria-keyshortcuts="e" onClick={() => setMode("edit")}>
              Edit …
            </button>
            <button type="button" className="button" aria-keyshortcuts="d" onClick={() => setMode("deny")}>
              Deny …
            </button>
            <button type="button" className="button" aria-keyshortcuts="r" onClick={() => setMode("respond")}>
              Respond …
            </button>
            <button
              type="button"
              className="button quiet"
              title={`Approve, and do not ask about ${call.name} again in this thread`}
              onClick={() => void deciding.run({ decision: "always" })}
            >
              Always approve
            </button>
          </>
        )}
        {mode === "edit" && (
          <>
            <button type="submit" className="button primary">
              Approve with these arguments
            </button>
            {back}
          </>
        )}
        {mode === "deny" && (
          <>
            <button type="submit" className="button danger">
              {inDoubt ? "Do not run it again" : "Deny"}
            </button>
            {back}
          </>
        )}
        {mode === "respond" && (
          <>
            <button type="submit" className="button primary">
              Respond
            </button>
            {back}
          </>
        )}
      </fieldset>
    </form>
  );
}

/** What a person typed as a result: JSON if it is some, else text. */
function resultOf(text: string): Json {
  const given = text.trim();
  if (!given) return null;
  const read = readJson(given);
  return "problem" in read ? given : read.value;
}

const AFTERWARDS = { deny: "denied", approve: "approved", leave: "left as it is" } as const;

function Deadline({ at, then }: { at: string; then: keyof typeof AFTERWARDS }) {
  const left = Date.parse(at) - useNow();
  const what = AFTERWARDS[then];
  return (
    <span className="tag" data-tone="wait">
      {left > 0 ? `${what} in ${duration(left)}` : `being ${what}`}
    </span>
  );
}
