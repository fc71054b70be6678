import { describe, expect, it } from "vitest";
import { ago, brief, bytes, count, duration, money, pretty, short, statusOf } from "@/text/format";

describe("words for amounts", () => {
  it("are short and exact enough", () => {
    expect([1, 12_345, 999_600, 4_560_000].map(short)).toEqual(["1", "12.3k", "1M", "4.56M"]);
    expect([250, 1_500, 59_000, 61_000, 3_700_000, 200_000_000].map(duration)).toEqual([
      "250 ms",
      "1.5 s",
      "59 s",
      "1 min 1 s",
      "1 h 1 min",
      "2 d 7 h",
    ]);
    expect([null, 0, 0.0123, 1.5].map(money)).toEqual(["cost unknown", "$0.00", "$0.012", "$1.50"]);
    expect([0.00006, 0.5, 0.0999, 1e-9].map(money)).toEqual(["$0.00006", "$0.50", "$0.10", "< $0.000001"]);
    expect([1, 2_048, 5_242_880].map(bytes)).toEqual(["1 byte", "2.0 kB", "5.0 MB"]);
    expect([count(1, "call waits", "calls wait"), count(2, "turn")]).toEqual(["1 call waits", "2 turns"]);
  });

  it("say how long ago something was, and never that it is to come", () => {
    const now = Date.parse("2026-01-02T00:00:00Z");
    const at = (ms: number) => ago(new Date(now - ms).toISOString(), now);
    expect([-5_000, 59_000, 61_000, 7_200_000, 86_400_000].map(at)).toEqual(["now", "now", "1 min", "2 h", "1 d"]);
  });
});

describe("words for runs", () => {
  it("say what a pause is for", () => {
    expect(statusOf({ status: "paused", reason: "hitl" })).toEqual(["wait", "waits for you"]);
    expect(statusOf({ status: "paused", reason: "subagent" })).toEqual(["running", "waits for subagents"]);
    expect(statusOf({ status: "paused", reason: "manual" })).toEqual(["wait", "paused"]);
    expect(statusOf({ status: "completed", reason: null })).toEqual(["ok", "completed"]);
  });
});

describe("arguments", () => {
  it("are recognised in one line and read in several", () => {
    expect(brief({ path: "/a", n: 1, deep: { x: [1] } })).toBe('/a · 1 · {"x":[1]}');
    expect(pretty({ a: 1 })).toBe('{"a":1}');
    expect(pretty({ text: "x".repeat(80) })).toContain("\n");
  });
});
