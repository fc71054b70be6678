// The rows of a waterfall: the nodes of the graph, each from its start to its end, below what it is a part of.

import type { GraphNode } from "@/views/graph/model";

export interface Span {
  readonly node: GraphNode;
  readonly depth: number;
  readonly start: number;
  /** Now, if it goes on. */
  readonly end: number;
}

const DEPTHS = { run: 0, tick: 1, model: 2, tool: 2, approval: 2, child: 3 } as const;

export function spansOf(nodes: readonly GraphNode[], now: number): Span[] {
  return nodes.map((node) => ({
    node,
    depth: DEPTHS[node.kind],
    start: node.start,
    end: Math.max(node.start, node.end ?? now),
  }));
}

/** Whether something goes on, so that the end of its row moves with the clock. */
export function isMoving(nodes: readonly GraphNode[]): boolean {
  return nodes.some(({ end }) => end === null);
}
