// The rows of a waterfall: the nodes of the graph, each from its start to its end, below what it is a part of.

import type { GraphNode, RunGraph } from "@/run/runGraph";

export interface Span {
  readonly node: GraphNode;
  readonly depth: number;
  readonly start: number;
  /** Now, if it goes on. */
  readonly end: number;
}

const DEPTHS = { run: 0, tick: 1, model: 2, tool: 2, approval: 2, child: 3 } as const;

export function spansOf(graph: RunGraph, now: number): Span[] {
  return inOrder(graph).map((node) => ({
    node,
    depth: DEPTHS[node.kind],
    start: node.start,
    end: Math.max(node.start, node.end ?? now),
  }));
}

/** As they began, but a child below the call that has spawned it. */
function inOrder({ nodes, edges }: RunGraph): GraphNode[] {
  const spawner = new Map(edges.filter(({ kind }) => kind === "spawn").map(({ source, target }) => [target, source]));
  const below = new Map<string, GraphNode[]>();
  const rest: GraphNode[] = [];
  for (const node of nodes) {
    const above = spawner.get(node.id);
    if (above === undefined) rest.push(node);
    else below.set(above, [...(below.get(above) ?? []), node]);
  }
  return rest.flatMap((node) => [node, ...(below.get(node.id) ?? [])]);
}

/** Whether something goes on, so that the end of its row moves with the clock. */
export function isMoving(nodes: readonly GraphNode[]): boolean {
  return nodes.some(({ end }) => end === null);
}
