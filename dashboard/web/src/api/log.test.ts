import { describe, expect, it } from "vitest";
import { append, EMPTY, hear, lastSeq, prepend } from "@/api/log";
import type { ThreadEvent } from "@/api/types";

function event(seq: number): ThreadEvent {
  return { threadId: "t", seq, ts: "2026-01-01T00:00:00Z", type: "run.tick", data: {} };
}

const events = (...seqs: number[]) => seqs.map(event);
const seqs = (found: readonly ThreadEvent[]) => found.map((each) => each.seq);

describe("a log", () => {
  it("takes each event once, in order", () => {
    const first = append(EMPTY, events(1, 2, 2, 1, 3));
    expect(seqs(first.log.events)).toEqual([1, 2, 3]);
    const second = append(first.log, events(2, 3, 4));
    expect(seqs(second.fresh)).toEqual([4]);
    expect(second.gap).toBe(false);
    expect(lastSeq(second.log)).toBe(4);
  });

  it("takes nothing after a gap, and says so", () => {
    const { log, fresh, gap } = append(append(EMPTY, events(1)).log, events(2, 4, 5));
    expect(seqs(fresh)).toEqual([2]);
    expect(gap).toBe(true);
    expect(lastSeq(log)).toBe(2);
  });

  it("is the same object if nothing is new, so that nothing is rendered", () => {
    const { log } = append(EMPTY, events(1));
    expect(append(log, events(1)).log).toBe(log);
  });

  it("begins where it is told to, and grows at its front only where it fits", () => {
    const late = append({ events: [], before: 5 }, events(6, 7)).log;
    expect(prepend(late, events(1, 2))).toBe(late);
    const more = prepend(late, events(4, 5, 6));
    expect(seqs(more.events)).toEqual([4, 5, 6, 7]);
    expect(more.before).toBe(3);
    expect(prepend(more, events(1, 2, 3)).before).toBe(0);
  });
});

describe("speech", () => {
  const piece = (delta: string, offset: number, runId = "r1") => ({ runId, delta, offset });

  it("grows piece by piece", () => {
    const said = hear(hear(null, piece("Hello ", 0)), piece("world", 6));
    expect(said).toEqual({ runId: "r1", text: "Hello world", ended: false });
  });

  it("replaces its text by the text so far, which a client that comes late gets", () => {
    const said = hear(hear(null, piece("Hello ", 0)), piece("Hello world, and", 0));
    expect(said?.text).toBe("Hello world, and");
  });

  it("takes a piece twice without repeating it", () => {
    const once = hear(hear(null, piece("Hello ", 0)), piece("world", 6));
    expect(hear(once, piece("world", 6))?.text).toBe("Hello world");
  });

  it("misses nothing silently", () => {
    expect(hear(null, piece("world", 6))).toBeNull();
  });

  it("begins anew with another reply", () => {
    const first = hear(null, piece("one", 0));
    expect(hear(first && { ...first, ended: true }, piece("two", 0))?.text).toBe("two");
    expect(hear(first, piece("two", 0, "r2"))?.text).toBe("two");
  });
});
