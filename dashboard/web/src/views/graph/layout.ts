// Where the nodes of a run go. It reads like text: from left to right, what happens at the same time one below the
// other, and on a new line when there is no more room; a run begins a line. Nodes that are there keep their places when
// more come, so a graph that grows does not jump.

import type { GraphEdge } from "@/views/graph/model";

export const COLUMN = 190;
export const ROW = 58;
const LINE_GAP = 46;
const RUN_GAP = 34;

export interface Place {
  readonly x: number;
  readonly y: number;
}

/** A line may be so much wider than what it is drawn in: labels can still be read at that size. */
const SHRINK = 1.35;
const FEWEST = 4;
const MANY = 600;

/** So many columns make a line: as many as can be read at once, and more if there are so many that nobody reads them all. */
export function columnsFor(nodes: number, width: number): number {
  const readable = Math.max(FEWEST, Math.floor((width * SHRINK) / COLUMN));
  return nodes <= MANY ? readable : 3 * readable;
}

/** What is laid out: a node of the model, or one that stands for several. They come in the order of their edges. */
export interface Placed {
  readonly id: string;
  readonly kind: string;
}

export function layout(nodes: readonly Placed[], edges: readonly GraphEdge[], columns: number): Map<string, Place> {
  const ranks = ranksOf(nodes, edges);
  const places = new Map<string, Place>();
  let line = new Line(0, 0);
  let began = false;
  for (const node of nodes) {
    const rank = ranks.get(node.id) ?? 0;
    const run = node.kind === "run";
    if (run || (isBreak(node) && rank - line.begin >= columns)) {
      line = new Line(rank, began ? line.bottom + LINE_GAP + (run ? RUN_GAP : 0) : 0);
    }
    began = true;
    places.set(node.id, line.place(rank));
  }
  return places;
}

/** A line ends before a step: what belongs together stays together. */
function isBreak({ kind }: Placed): boolean {
  return kind === "tick" || kind === "fold";
}

class Line {
  readonly #stacks = new Map<number, number>();
  bottom: number;

  constructor(
    readonly begin: number,
    readonly top: number,
  ) {
    this.bottom = top + ROW;
  }

  place(rank: number): Place {
    const column = Math.max(0, rank - this.begin);
    const above = this.#stacks.get(column) ?? 0;
    this.#stacks.set(column, above + 1);
    this.bottom = Math.max(this.bottom, this.top + (above + 1) * ROW);
    return { x: column * COLUMN, y: this.top + above * ROW };
  }
}

/** One more than the highest of those that lead to a node. */
function ranksOf(nodes: readonly Placed[], edges: readonly GraphEdge[]): Map<string, number> {
  const before = new Map<string, string[]>();
  for (const { source, target } of edges) {
    const known = before.get(target);
    if (known) known.push(source);
    else before.set(target, [source]);
  }
  const ranks = new Map<string, number>();
  for (const { id } of nodes) {
    let rank = 0;
    for (const source of before.get(id) ?? []) rank = Math.max(rank, (ranks.get(source) ?? 0) + 1);
    ranks.set(id, rank);
  }
  return ranks;
}
