import { describe, expect, it } from "vitest";
import type { AgencyEvent, ThreadSummary } from "@/api/types";
import { advanced } from "@/live/agency";
import { threadSummary } from "@/testing/samples";

const usage = { input: 10, output: 5, cachedInput: 0, cacheWrite: 0, reasoning: 0 };
const thread: ThreadSummary = threadSummary("t", {
  status: "running",
  seq: 5,
  tokensUsed: usage,
  costUsd: 0.5,
  children: { tokensUsed: usage, costUsd: 0 },
});

function event(seq: number, type: AgencyEvent["type"], data: AgencyEvent["data"] = {}): AgencyEvent {
  return { threadId: "t", seq, ts: "2026-01-01T00:00:09Z", type, data, cursor: seq };
}

describe("a thread in the list", () => {
  it("follows what events say about its run", () => {
    const paused = advanced(thread, event(6, "run.paused", { reason: "hitl" }));
    expect([paused.status, paused.reason, paused.seq]).toEqual(["paused", "hitl", 6]);
    const resumed = advanced(paused, event(7, "run.resumed"));
    expect([resumed.status, resumed.reason]).toEqual(["running", null]);
    expect(advanced(resumed, event(8, "agent.completed")).status).toBe("completed");
  });

  it("is not set back by an event that it knows", () => {
    expect(advanced(thread, event(5, "run.canceled"))).toBe(thread);
  });

  it("counts what is spent as it is spent", () => {
    const spent = advanced(
      thread,
      event(6, "model.completed", { usage: { inputTokens: 3, outputTokens: 4 }, costUsd: 0.25 }),
    );
    expect([spent.costUsd, spent.tokensUsed.input, spent.tokensUsed.output]).toEqual([0.75, 13, 9]);
  });
});
