// A thread's messages as they are shown: who said what, what a model thought, and each call with what came of it.

import type { Image, Json, Message, PendingCall, Subagent, ThreadEvent } from "@/api/types";

export type CallState = "planned" | "waiting" | "running" | "done" | "failed" | "denied" | "canceled";

export interface Call {
  id: string;
  name: string;
  args: Json;
  state: CallState;
  result: string | null;
  child: Subagent | null;
  /** From its start to its end, as far as events say; of one that runs, when it began. */
  ms: number | null;
  startedAt: string | null;
  /** Whether no later call has its id: some models count from one in every reply. */
  isLatest: boolean;
  /** What it waits for, outside. */
  waitsFor: string | null;
  /** What a person decided on it. */
  verdict: Verdict | null;
}

/** A decision on a call, as events tell of it. */
export interface Verdict {
  decision: string;
  /** The name of who decided, if it is known. */
  by: string | null;
  /** Whether it counts because no person decided in time. */
  late: boolean;
  /** The arguments that ran in the place of those that were proposed. */
  args: Json | null;
}

/** What a reply took. */
interface Spent {
  /** The event that tells of it. */
  seq: number;
  model: string;
  tokens: number;
  costUsd: number | null;
  ms: number | null;
}

export interface Entry {
  key: string;
  id: string;
  role: Message["role"];
  origin: string | null;
  text: string;
  thinking: string;
  images: readonly Image[];
  calls: Call[];
  spent: Spent | null;
}

interface Seen {
  messages: readonly Message[];
  subagents: readonly Subagent[];
  pending: readonly PendingCall[];
  events: readonly ThreadEvent[];
  /** Whether `events` begin with the thread's first. */
  complete: boolean;
  running: boolean;
}

export function transcript(seen: Seen): Entry[] {
  const children = new Map(seen.subagents.map((each) => [each.toolCallId, each]));
  const noted = notedCalls(seen.events);
  const verdicts = verdictsOf(seen.events);
  const entries: Entry[] = [];
  let open = new Map<string, Call>();
  seen.messages.forEach((message, at) => {
    const call = message.role === "tool" ? open.get(message.toolCallId ?? "") : undefined;
    if (call) {
      call.state = outcome(message);
      call.result = message.content;
      return;
    }
    const calls = message.toolCalls.map(({ id, name, args }) =>
      asCall({ id, name, args }, noted.get(id), children.get(id), verdicts.get(id)),
    );
    if (calls.length) open = new Map(calls.map((each) => [each.id, each]));
    entries.push({
      key: `${at} ${message.id}`,
      id: message.id,
      role: message.role,
      origin: message.origin,
      text: message.content,
      thinking: message.role === "assistant" ? thinking(message.meta) : "",
      images: message.images ?? [],
      calls,
      spent: null,
    });
  });
  const waiting = new Set(seen.pending.map((call) => call.id));
  for (const call of open.values()) if (call.result === null) atWork(call, noted.get(call.id), waiting);
  const latest = new Map(entries.flatMap((entry) => entry.calls).map((call) => [call.id, call]));
  for (const call of latest.values()) call.isLatest = true;
  addSpending(entries, seen);
  return entries;
}

// Calls.

interface Noted {
  startedAt: string;
  ms: number | null;
  state: "running" | "done" | "failed";
  text: string | null;
  /** What it waits for, outside. */
  waitsFor: string | null;
}

/** What events tell of each call; of calls with the same id, of the latest. */
function notedCalls(events: readonly ThreadEvent[]): Map<string, Noted> {
  const noted = new Map<string, Noted>();
  for (const { type, ts, data } of events) {
    const id = data.callId as string;
    if (type === "tool.started")
      noted.set(id, { startedAt: ts, ms: null, state: "running", text: null, waitsFor: null });
    const begun = noted.get(id);
    if (type === "tool.retried" && !data.retryAt && begun) begun.startedAt = ts; // the attempt before was lost
    if (type === "tool.waiting" && begun) begun.waitsFor = data.waitsFor as string;
    if (type !== "tool.output" && type !== "tool.error") continue;
    const startedAt = noted.get(id)?.startedAt ?? ts;
    const ms = noted.has(id) ? Date.parse(ts) - Date.parse(startedAt) : null;
    const failed = type === "tool.error";
    noted.set(id, {
      startedAt,
      ms,
      state: failed ? "failed" : "done",
      text: asText(failed ? data.error : data.output),
      waitsFor: null,
    });
  }
  return noted;
}

/** An output as the transcript will have it: text, or JSON. */
function asText(output: Json | undefined): string {
  return typeof output === "string" ? output : JSON.stringify(output);
}

/** What was decided on each call; of calls with the same id, and of several decisions on one, the latest. */
function verdictsOf(events: readonly ThreadEvent[]): Map<string, Verdict> {
  const found = new Map<string, Verdict>();
  for (const { type, data } of events) {
    if (type !== "hitl.resume") continue;
    const edited = (data.modifiedToolCalls ?? []) as { callId: string; args: Json }[];
    for (const [id, decision] of Object.entries(data.decisions as Record<string, string>)) {
      found.set(id, {
        decision,
        by: (data.decidedBy as string | undefined) ?? null,
        late: data.by === "timeout",
        args: edited.find((each) => each.callId === id)?.args ?? null,
      });
    }
  }
  return found;
}

function asCall(
  said: Pick<Call, "id" | "name" | "args">,
  noted: Noted | undefined,
  child: Subagent | undefined,
  verdict: Verdict | undefined,
): Call {
  return {
    ...said,
    verdict: verdict ?? null,
    state: "planned",
    result: null,
    child: child ?? null,
    ms: noted?.ms ?? null,
    startedAt: noted?.startedAt ?? null,
    isLatest: false,
    waitsFor: noted?.waitsFor ?? null,
  };
}

function outcome({ content, meta }: Message): CallState {
  if (meta === null || typeof meta !== "object" || !("status" in meta)) return "done";
  if (meta.status === "canceled") return "canceled";
  return content.startsWith("Error: permission_denied:") ? "denied" : "failed";
}

/** A call of the batch that is not in the transcript yet: what events tell of it. */
function atWork(call: Call, noted: Noted | undefined, waiting: ReadonlySet<string>): void {
  if (waiting.has(call.id)) {
    call.state = "waiting";
  } else if (noted) {
    call.state = noted.state;
    call.result = noted.text;
  }
}

// What replies took.

/**
 * Every reply of a model is one message of the assistant's, in the same order. They are matched from the beginning if
 * all events are here; else from the end, which is settled only while nothing runs.
 */
function addSpending(entries: readonly Entry[], { events, complete, running }: Seen): void {
  if (!complete && running) return;
  const replies = repliesOf(events);
  const said = entries.filter((each) => each.role === "assistant" && each.origin === null);
  const shift = complete ? 0 : replies.length - said.length;
  said.forEach((entry, at) => {
    entry.spent = replies[at + shift] ?? null;
  });
}

function repliesOf(events: readonly ThreadEvent[]): Spent[] {
  const replies: Spent[] = [];
  let began: string | null = null;
  for (const { seq, type, ts, data } of events) {
    if (type === "model.started") began = ts;
    if (type !== "model.completed" || data.error) continue;
    const usage = data.usage as { inputTokens: number; outputTokens: number };
    replies.push({
      seq,
      model: data.model as string,
      tokens: usage.inputTokens + usage.outputTokens,
      costUsd: data.costUsd as number | null,
      ms: began === null ? null : Date.parse(ts) - Date.parse(began),
    });
  }
  return replies;
}

/** What a model thought, in whatever shape its provider has it. */
export function thinking(meta: Json): string {
  if (meta === null || typeof meta !== "object") return "";
  if (Array.isArray(meta)) return joined(meta.map(thinking));
  if (meta.type === "thinking") return typeof meta.thinking === "string" ? meta.thinking : "";
  const own = [meta.reasoning_content, meta.reasoning].filter((each): each is string => typeof each === "string");
  const details = Array.isArray(meta.reasoning_details) ? meta.reasoning_details.map(detail) : [];
  const inside = Object.values(meta).filter(
    (each) => each !== null && typeof each === "object" && each !== meta.reasoning_details,
  );
  return joined([...own, ...details, ...inside.map(thinking)]);
}

function detail(piece: Json): string {
  if (piece === null || typeof piece !== "object" || Array.isArray(piece)) return "";
  return joined([piece.text, piece.summary].filter((each): each is string => typeof each === "string"));
}

function joined(parts: readonly string[]): string {
  return parts.filter(Boolean).join("\n\n");
}
