import { describe, expect, test } from "vitest";
import { graphOf } from "@/run/runGraph";
import { longRun, Recording } from "@/testing/recording";
import { fold, isFold } from "@/views/graph/folding";
import { detour, layout, lineWidth, segments } from "@/views/graph/layout";
import { nodesMatching } from "@/views/graph/search";

const NONE: ReadonlySet<string> = new Set();

describe("folding", () => {
  test("a short run is drawn as it is", () => {
    const graph = graphOf(longRun(20));
    expect(fold(graph, NONE).nodes).toEqual(graph.nodes);
  });

  test("a long run keeps its first and last steps, and a few folds stand for the others", () => {
    const graph = graphOf(longRun(500));
    const { nodes, edges, hidden } = fold(graph, NONE);
    const folds = nodes.filter(isFold);
    expect(folds.map(({ label }) => label)).toEqual(["100 steps", "100 steps", "100 steps", "100 steps", "80 steps"]);
    expect(nodes.length - folds.length + hidden.size).toBe(graph.nodes.length);
    expect(folds.reduce((sum, { size }) => sum + size, 0)).toBe(hidden.size);
    const drawn = new Set(nodes.map(({ id }) => id));
    expect(edges.every(({ source, target }) => drawn.has(source) && drawn.has(target))).toBe(true);
    expect(nodes.at(-1)?.id).toBe(graph.nodes.at(-1)?.id);
  });

  test("a fold that is opened shows its steps, also when the run has grown", () => {
    const before = fold(graphOf(longRun(100)), NONE).nodes.find(isFold);
    const opened = new Set([before?.id ?? ""]);
    expect(fold(graphOf(longRun(100)), opened).nodes.filter(isFold)).toEqual([]);
    expect(
      fold(graphOf(longRun(150)), opened)
        .nodes.filter(isFold)
        .map(({ label }) => label),
    ).toEqual(["30 steps"]);
  });
});

test("of 5,000 events, few nodes are drawn until a person wants more", () => {
  const events = longRun(720);
  expect(events.length).toBeGreaterThan(5_000);
  expect(fold(graphOf(events), NONE).nodes.length).toBeLessThan(120);
});

describe("layout", () => {
  test("no two nodes are in one place, and edges within a line lead to the right", () => {
    const { events } = new Recording().begin().step(1).call("a").call("b").output("a").output("b").step(2).end();
    const { nodes, edges } = graphOf(events);
    const places = layout(nodes, edges, 2_000);
    expect(new Set([...places.values()].map(({ x, y }) => `${x} ${y}`)).size).toBe(nodes.length);
    for (const { source, target } of edges) {
      expect(places.get(source)?.x).toBeLessThan(places.get(target)?.x ?? 0);
    }
  });

  test("a long run goes on in the next line, a new run begins one", () => {
    const { events } = new Recording().begin().step(1).end().begin().step(1).end();
    const { nodes, edges } = graphOf(events);
    const places = layout(nodes, edges, 2_000);
    const runs = nodes.filter(({ kind }) => kind === "run").map(({ id }) => places.get(id));
    expect(runs[1]?.x).toBe(runs[0]?.x);
    expect(runs[1]?.y).toBeGreaterThan(runs[0]?.y ?? 0);

    const long = graphOf(longRun(550));
    const all = [...layout(long.nodes, long.edges, lineWidth(long.nodes.length, 900)).values()];
    const width = Math.max(...all.map(({ x }) => x));
    const height = Math.max(...all.map(({ y }) => y));
    expect(width).toBeLessThan(10_000);
    expect(height).toBeLessThan(20_000);
    expect(new Set(all.map(({ x, y }) => `${x} ${y}`)).size).toBe(long.nodes.length);
  });

  test("nodes keep their places when more come", () => {
    const part = graphOf(longRun(150).slice(0, -40));
    const whole = graphOf(longRun(150));
    const before = layout(part.nodes, part.edges, 1_500);
    const after = layout(whole.nodes, whole.edges, 1_500);
    for (const [id, place] of before) expect(after.get(id)).toEqual(place);
  });
});

test("an edge to a later line goes around, and the corners can be found again from the line between its nodes", () => {
  const [from, to] = [
    { x: 900, y: 100 },
    { x: 40, y: 300 },
  ];
  const corners = detour(from, to);
  expect(corners.every(({ x, y }) => x > from.x || y < to.y)).toBe(true);
  const { weights, distances } = segments(from, to, corners);
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy);
  const again = weights.map((weight, at) => {
    const distance = distances[at] ?? 0;
    return {
      x: from.x + weight * dx - (distance * dy) / length,
      y: from.y + weight * dy + (distance * dx) / length,
    };
  });
  for (const [at, { x, y }] of again.entries()) {
    expect(x).toBeCloseTo(corners[at]?.x ?? 0);
    expect(y).toBeCloseTo(corners[at]?.y ?? 0);
  }
});

test("a search finds what has all its words", () => {
  const { nodes } = graphOf(longRun(5));
  expect(nodesMatching(nodes, "")).toEqual([]);
  expect(nodesMatching(nodes, "TOOL c3").map(({ detail }) => detail)).toEqual(["c3"]);
  expect(nodesMatching(nodes, "model").length).toBe(6);
  expect(nodesMatching(nodes, "nowhere")).toEqual([]);
});
