// Two threads, and where they part: what both begin with, and what each goes on with.

import type { Json, Message } from "@/api/types";

export interface Pair {
  readonly left: Message | null;
  readonly right: Message | null;
}

export interface Comparison {
  readonly common: readonly Message[];
  readonly pairs: readonly Pair[];
}

export function compared(left: readonly Message[], right: readonly Message[]): Comparison {
  let at = 0;
  while (at < left.length && at < right.length && isSame(left[at], right[at])) at += 1;
  const rest = Math.max(left.length, right.length) - at;
  return {
    common: left.slice(0, at),
    pairs: Array.from({ length: rest }, (_, n) => ({ left: left[at + n] ?? null, right: right[at + n] ?? null })),
  };
}

/** Whether both say the same. Ids, and what only machines read, do not count. */
function isSame(one: Message | undefined, other: Message | undefined): boolean {
  return one !== undefined && other !== undefined && said(one) === said(other);
}

function said({ role, content, toolCalls, images }: Message): string {
  return JSON.stringify([role, content, (toolCalls ?? []).map(({ name, args }) => [name, args]), images?.length ?? 0]);
}

export interface Calls {
  /** How often each tool was called. */
  readonly byName: ReadonlyMap<string, number>;
  readonly failed: number;
}

export function callsOf(messages: readonly (Message | null)[]): Calls {
  const byName = new Map<string, number>();
  let failed = 0;
  for (const message of messages) {
    for (const { name } of message?.toolCalls ?? []) byName.set(name, (byName.get(name) ?? 0) + 1);
    if (message?.role === "tool" && isFailure(message.meta)) failed += 1;
  }
  return { byName, failed };
}

function isFailure(meta: Json | undefined): boolean {
  return typeof meta === "object" && meta !== null && !Array.isArray(meta) && "status" in meta;
}
