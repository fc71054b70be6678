// What waits for a person, at a thread: its own calls, and those of every thread below it.

import type { Approval, Decision, PendingCall, RunEnvelope, Subagent, ThreadSummary } from "@/api/types";
import { ancestors } from "@/threads/threadTree";

/** A call that waits. */
export interface WaitingCall {
  key: string;
  threadId: string;
  agentType: string;
  call: PendingCall;
  since: string | null;
  about?: About;
}

/** What the thread of something that waits is about. */
export interface About {
  title: string | null;
  /** What its user wants, in the user's words. */
  request: string;
}

/** A run that has used up a limit or its agency's budget. */
export interface Exhausted {
  key: string;
  threadId: string;
  agentType: string;
  code: string;
  about?: About;
}

export interface Waiting {
  calls: WaitingCall[];
  limits: Exhausted[];
}

interface Here {
  threadId: string;
  agentType: string;
  envelope: RunEnvelope | null;
  subagents: readonly Subagent[];
}

/** Everything that the thread and those below it wait for. Of the thread itself, its own run knows best. */
export function waitingAt(
  here: Here,
  approvals: readonly Approval[],
  threads: ReadonlyMap<string, ThreadSummary>,
): Waiting {
  const children = new Set(here.subagents.map((each) => each.childThreadId));
  const below = approvals.filter(
    ({ threadId, parentId }) =>
      threadId !== here.threadId &&
      (children.has(threadId) ||
        parentId === here.threadId ||
        ancestors(threads, threadId).some((each) => each.id === here.threadId)),
  );
  const found = inInbox(below);
  const { envelope, threadId, agentType } = here;
  const own = (envelope?.meta.pendingToolCalls ?? []).map((call) => waitingCall(threadId, agentType, call, null));
  const [error] = envelope?.meta.pauseReason === "exhausted" ? envelope.errors : [];
  const ownLimit = error ? [{ key: `${threadId} limit`, threadId, agentType, code: error.code }] : [];
  return { calls: [...own, ...found.calls], limits: [...ownLimit, ...found.limits] };
}

/** Everything that an agency waits for. */
export function inInbox(approvals: readonly Approval[]): Waiting {
  const calls = approvals.flatMap(({ threadId, agentType, calls, since, title, request }) =>
    calls.map((call) => waitingCall(threadId, agentType, call, since, { title, request })),
  );
  const limits = approvals.flatMap(({ threadId, agentType, kind, code, title, request }) =>
    kind === "limit" && code
      ? [{ key: `${threadId} limit`, threadId, agentType, code, about: { title, request } }]
      : [],
  );
  return { calls, limits };
}

function waitingCall(
  threadId: string,
  agentType: string,
  call: PendingCall,
  since: string | null,
  about?: About,
): WaitingCall {
  return { key: `${threadId} ${call.id}`, threadId, agentType, call, since, ...(about ? { about } : {}) };
}

/** The id under which a decision names a call: of exactly these arguments, if the call has one. */
export function approvalIdOf(call: PendingCall): string {
  return call.approvalId || call.id;
}

/** The same decision for several calls, by their threads. */
export function byThread(calls: readonly WaitingCall[], decision: Decision): Map<string, Record<string, Decision>> {
  const found = new Map<string, Record<string, Decision>>();
  for (const { threadId, call } of calls) {
    found.set(threadId, { ...found.get(threadId), [approvalIdOf(call)]: decision });
  }
  return found;
}
