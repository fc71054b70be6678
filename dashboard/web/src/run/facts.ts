// What a run tells about itself, in words: what it is doing, who canceled it, where its result comes from, and what it
// has made use of.

import type { RunEnvelope } from "@/api/types";
import type { ThreadNow } from "@/live/thread";

type Meta = RunEnvelope["meta"];
type Activity = Meta["activity"];
export type Canceler = NonNullable<Meta["canceledBy"]>;

/** What a run is doing. Events come before the run is loaded again, so the latest one counts, if it tells. */
export function activityNow({ envelope, log, run }: Pick<ThreadNow, "envelope" | "log" | "run">): Activity | null {
  const known = envelope?.meta.activity;
  if (!known || known.kind === "idle") return null;
  const last = log.events.at(-1);
  const heartbeatAt = Math.max(known.heartbeatAt, last ? Date.parse(last.ts) : 0);
  if (run?.status === "running" && last?.type === "model.started")
    return { kind: "streaming", tool: null, heartbeatAt };
  if (run?.status === "running" && last?.type === "tool.started") {
    return { kind: "tool", tool: String(last.data.toolName), heartbeatAt };
  }
  return { ...known, heartbeatAt };
}

const ENDS = new Set(["agent.completed", "agent.error", "run.canceled"]);

/** How long a run has waited rather than worked, as far as its events are here; `worked` is how long it has worked. */
export function waitedMs({ envelope, log }: Pick<ThreadNow, "envelope" | "log">, worked: number, now: number): number {
  const own = log.events.filter(({ data }) => envelope !== null && data.runId === envelope.runId);
  const began = own.find(({ type }) => type === "run.started");
  if (!began) return 0;
  const ended = own.findLast(({ type }) => ENDS.has(type));
  return Math.max(0, (ended ? Date.parse(ended.ts) : now) - Date.parse(began.ts) - worked);
}

export function activityWords({ kind, tool }: Activity): string {
  switch (kind) {
    case "streaming":
      return "the model is at work";
    case "tool":
      return tool ? `${tool} is at work` : "code is at work";
    case "compacting":
      return "making room in the conversation";
    case "waiting":
      return "waiting";
    case "idle":
      return "idle";
  }
}

export function cancelerWords({ kind, name }: Canceler): string {
  switch (kind) {
    case "person":
      return name ?? "a person";
    case "parent":
      return "its parent";
    case "limit":
      return "the time limit that its parent set";
    case "deletion":
      return "its deletion";
    case "fork":
      return "the fork: it goes on in the original";
  }
}

const SOURCES: Record<NonNullable<Meta["resultSource"]>, string> = {
  assistant_message: "the model's answer",
  structured_output: "output that fits a schema",
  tool_value: "a tool",
  submitted_value: "code",
  middleware: "middleware",
  handoff: "a handoff",
};

export function sourceWords(source: NonNullable<Meta["resultSource"]>): string {
  return SOURCES[source];
}

/** What was made use of; what was not, or is not known, is left out. */
export function capabilityWords(used: Meta["capabilitiesUsed"]): string[] {
  return [
    used.promptCacheActive && "prompt cache",
    used.thinkingEnabled && "thinking",
    used.structuredOutputEnforced && "structured output",
    used.contextCompactionApplied && "messages left out",
    used.toolCompactionApplied && "results cut",
    ...used.nativeSubagentsUsed.map((name) => `subagent ${name}`),
    ...used.mcpServersUsed.map((name) => `MCP ${name}`),
  ].filter((each) => typeof each === "string");
}
