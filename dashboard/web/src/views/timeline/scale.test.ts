import { describe, expect, test } from "vitest";
import { graphOf } from "@/run/runGraph";
import { Recording } from "@/testing/recording";
import { marks, scaleOf } from "@/views/timeline/scale";
import { isMoving, spansOf } from "@/views/timeline/spans";

const HOUR = 3_600_000;

function waited() {
  const recording = new Recording().begin().step(1).call("a").output("a").step(2).end();
  recording
    .add("run.started", {}, 5 * HOUR)
    .step(1)
    .end();
  return graphOf(recording.events);
}

describe("spans", () => {
  test("every node is a row, from its start to its end, below what it is a part of", () => {
    const graph = waited();
    const spans = spansOf(graph, 0);
    expect(spans.map(({ node }) => node.id)).toEqual(graph.nodes.map(({ id }) => id));
    expect(spans.map(({ depth }) => depth)).toEqual([0, 1, 2, 2, 1, 2, 0, 1, 2]);
    expect(spans.every(({ start, end }) => end >= start)).toBe(true);
  });

  test("what goes on ends now", () => {
    const graph = graphOf(new Recording().begin().step(1).call("a").events);
    expect(isMoving(graph.nodes)).toBe(true);
    const call = graph.nodes.at(-1);
    expect(spansOf(graph, (call?.start ?? 0) + 700).at(-1)?.end).toBe((call?.start ?? 0) + 700);
    expect(isMoving(waited().nodes)).toBe(false);
  });

  test("a child is below the call that has spawned it", () => {
    const family = new Recording().begin().step(1).call("a", "task").call("b", "task");
    for (const id of ["a", "b"]) {
      family.add("subagent.spawned", { childThreadId: `kid ${id}`, agentType: "worker", callId: id });
    }
    const rows = spansOf(graphOf(family.events), 0).map(({ node }) => node.childThread ?? node.detail);
    expect(rows.slice(-4)).toEqual(["a", "kid a", "b", "kid b"]);
  });
});

describe("the scale", () => {
  test("goes from 0 to 1 and never back", () => {
    for (const shorten of [true, false]) {
      const spans = spansOf(waited(), 0);
      const scale = scaleOf(spans, shorten);
      expect([scale.at(scale.begin), scale.at(scale.end)]).toEqual([0, 1]);
      const places = [...new Set(spans.flatMap(({ start, end }) => [start, end]))].sort((a, b) => a - b).map(scale.at);
      expect(places).toEqual([...places].sort((a, b) => a - b));
    }
  });

  test("draws a long pause short, if that is wanted", () => {
    const spans = spansOf(waited(), 0);
    const [first, second] = spans.filter(({ depth }) => depth === 0);
    const long = scaleOf(spans, false);
    expect(long.at(first?.end ?? 0)).toBeLessThan(0.001);
    const short = scaleOf(spans, true);
    expect(short.pauses.length).toBe(1);
    expect(short.at(first?.end ?? 0)).toBeGreaterThan(0.2);
    expect(short.at(second?.start ?? 0)).toBeLessThan(0.95);
  });

  test("has a few round marks, none of them in a pause", () => {
    const scale = scaleOf(spansOf(waited(), 0), true);
    const made = marks(scale, 8);
    expect(made.length).toBeGreaterThan(1);
    expect(made.length).toBeLessThan(16);
    for (const time of made) {
      expect(scale.pauses.some(({ from, to }) => time > from && time < to)).toBe(false);
    }
  });

  test("of nothing is nothing", () => {
    expect(scaleOf([], true).at(5)).toBe(0);
  });
});
