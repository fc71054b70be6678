import { expect, test } from "vitest";
import type { RunEnvelope, ThreadEvent } from "@/api/types";
import { activityNow, activityWords, cancelerWords, capabilityWords, waitedMs } from "@/run/facts";
import { Recording } from "@/testing/recording";

type Activity = RunEnvelope["meta"]["activity"];

function now(activity: Activity, events: ThreadEvent[], status = "running") {
  const envelope = { meta: { activity } } as unknown as RunEnvelope;
  return { envelope, log: { events, before: 0 }, run: { status } } as unknown as Parameters<typeof activityNow>[0];
}

const streaming: Activity = { kind: "streaming", tool: null, heartbeatAt: 1 };

test("an event that came after the run was loaded tells what it does", () => {
  const { events } = new Recording().begin().step(1).call("a");
  const activity = activityNow(now(streaming, events));
  expect(activity && activityWords(activity)).toBe("note is at work");
  expect(activity?.heartbeatAt).toBe(Date.parse(events.at(-1)?.ts ?? ""));
});

test("what the run itself says counts otherwise", () => {
  const { events } = new Recording().begin().step(1).call("a");
  expect(activityNow(now({ ...streaming, kind: "compacting" }, []))?.kind).toBe("compacting");
  expect(activityNow(now({ ...streaming, kind: "waiting" }, events, "paused"))?.kind).toBe("waiting");
  expect(activityNow(now({ ...streaming, kind: "idle" }, events))).toBeNull();
});

test("who canceled a run is named", () => {
  expect(cancelerWords({ kind: "person", name: "Ann" })).toBe("Ann");
  expect(cancelerWords({ kind: "person", name: null })).toBe("a person");
  expect(cancelerWords({ kind: "limit", name: "thr" })).toBe("the time limit that its parent set");
});

test("only what was used is told", () => {
  const nothing = {
    promptCacheActive: null,
    thinkingEnabled: false,
    subagentInvoked: false,
    contextCompactionApplied: false,
    structuredOutputEnforced: false,
    toolCompactionApplied: false,
    mcpServersUsed: [],
    nativeSubagentsUsed: [],
  };
  expect(capabilityWords(nothing)).toEqual([]);
  expect(capabilityWords({ ...nothing, promptCacheActive: true, nativeSubagentsUsed: ["worker"] })).toEqual([
    "prompt cache",
    "subagent worker",
  ]);
});

test("waiting is what is not work, until the run has ended", () => {
  const at = (type: string, second: number, runId = "r") =>
    ({ type, data: { runId }, ts: new Date(1_000 * second).toISOString() }) as unknown as ThreadEvent;
  const envelope = { runId: "r" } as unknown as RunEnvelope;
  const events = [at("run.started", 1, "earlier"), at("run.started", 10), at("run.paused", 12)];
  expect(waitedMs({ envelope, log: { events, before: 0 } }, 2_000, 60_000)).toBe(48_000);
  const ended = [...events, at("agent.completed", 30)];
  expect(waitedMs({ envelope, log: { events: ended, before: 0 } }, 3_000, 90_000)).toBe(17_000);
  expect(waitedMs({ envelope, log: { events: [], before: 9 } }, 0, 60_000)).toBe(0);
});
