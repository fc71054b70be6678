// What a file was before: rebuilt from the transcript, which has every call that wrote or edited it, and its result.

import type { Json, Message, ToolCall } from "@/api/types";
import { tidy } from "@/files/tree";

export interface Version {
  /** From 1. */
  readonly n: number;
  readonly how: "written" | "edited" | "given";
  readonly text: string;
  /** The call that made it; null if a person has, or the file came with a message. */
  readonly callId: string | null;
}

/** The versions of each file, oldest first, by path. An edit of a text that is not known is left out. */
export function versionsOf(messages: readonly Message[]): Map<string, Version[]> {
  const results = new Map<string, string>();
  for (const { role, toolCallId, content } of messages) {
    if (role === "tool" && toolCallId !== null) results.set(toolCallId, content);
  }
  const made = new Map<string, Version[]>();
  for (const { toolCalls } of messages) {
    for (const call of toolCalls ?? []) take(made, call, results.get(call.id));
  }
  return made;
}

/** The versions of a file, with the text that it has now as the last one: people can change it, too. */
export function withCurrent(versions: readonly Version[], text: string | null): readonly Version[] {
  if (text === null || versions.at(-1)?.text === text) return versions;
  return [...versions, { n: versions.length + 1, how: "given", text, callId: null }];
}

function take(made: Map<string, Version[]>, call: ToolCall, result: string | undefined): void {
  const args = asObject(call.args);
  if (result === undefined || typeof args.path !== "string") return;
  const path = tidy(args.path);
  const versions = made.get(path) ?? [];
  const add = (how: Version["how"], text: string) =>
    made.set(path, [...versions, { n: versions.length + 1, how, text, callId: call.id }]);
  if (call.name === "write_file" && result.startsWith("Wrote ") && typeof args.content === "string") {
    add("written", args.content);
  } else if (call.name === "edit_file" && result.startsWith("Replaced ")) {
    const before = versions.at(-1)?.text;
    const { oldString, newString } = args;
    if (before === undefined || typeof oldString !== "string" || typeof newString !== "string") return;
    if (before.includes(oldString)) add("edited", before.split(oldString).join(newString)); // all that there are
  }
}

function asObject(args: Json): { [name: string]: Json } {
  return typeof args === "object" && args !== null && !Array.isArray(args) ? args : {};
}
