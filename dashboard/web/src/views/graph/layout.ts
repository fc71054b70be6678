// Where the nodes of a run go. It reads like text: from left to right, what happens at the same time one below the
// other, and on a new line when there is no more room; a run begins a line. Nodes that are there keep their positions when
// more come, so a graph that grows does not jump.

import type { GraphEdge } from "@/run/runGraph";

export const NODE_WIDTH = 160;
const COLUMN = 200;
const TICK_COLUMN = 78;
const ROW = 58;
const LINE_GAP = 44;
const RUN_GAP = 30;

/** A step has its tick, a model call and what that calls for. */
const STEP = TICK_COLUMN + 2 * COLUMN;

export interface Position {
  readonly x: number;
  readonly y: number;
}

/** What is laid out: a node of the model, or one that stands for several. They come in the order of their edges. */
interface LayoutNode {
  readonly id: string;
  readonly kind: string;
}

/** A line may be so much wider than what it is drawn in: labels can still be read at that size. */
const SHRINK = 1.1;
const LEAST = STEP + COLUMN;
const MANY = 600;
const ASPECT = 1.6;

/**
 * How long lines are: as can be read at once; or, with more nodes than a person reads, so that the whole has
 * the shape of a screen. That changes when their number has doubled, and not with each of them.
 */
export function lineWidth(nodes: number, width: number): number {
  const readable = Math.max(LEAST, width * SHRINK);
  if (nodes <= MANY) return readable;
  const area = 2 ** Math.ceil(Math.log2(nodes)) * COLUMN * ROW;
  return Math.max(readable, Math.sqrt(ASPECT * area));
}

export function layout(
  nodes: readonly LayoutNode[],
  edges: readonly GraphEdge[],
  width: number,
): Map<string, Position> {
  const ranks = ranksOf(nodes, edges);
  const positions = new Map<string, Position>();
  let line = new Line(0);
  for (const node of nodes) {
    const run = node.kind === "run";
    const full = isBreak(node) && line.width + STEP > width;
    if (positions.size && (run || full)) line = new Line(line.bottom + LINE_GAP + (run ? RUN_GAP : 0));
    positions.set(node.id, line.place(ranks.get(node.id) ?? 0, node.kind === "tick" ? TICK_COLUMN : COLUMN));
  }
  return positions;
}

/** A line ends before a step: what belongs together stays together. */
function isBreak({ kind }: LayoutNode): boolean {
  return kind === "tick" || kind === "fold";
}

/** A column has the nodes of one rank, and is as wide as the first of them wants. */
interface Column {
  readonly middle: number;
  height: number;
}

class Line {
  readonly #columns = new Map<number, Column>();
  width = 0;
  bottom: number;

  constructor(readonly top: number) {
    this.bottom = top + ROW;
  }

  place(rank: number, wide: number): Position {
    let column = this.#columns.get(rank);
    if (column === undefined) {
      column = { middle: this.width + wide / 2, height: 0 };
      this.#columns.set(rank, column);
      this.width += wide;
    }
    const y = this.top + column.height;
    column.height += ROW;
    this.bottom = Math.max(this.bottom, this.top + column.height);
    return { x: column.middle, y };
  }
}

/** One more than the highest of those that lead to a node. */
function ranksOf(nodes: readonly LayoutNode[], edges: readonly GraphEdge[]): Map<string, number> {
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

/** The corners of an edge that leads back, to a later line: out to the right, down, along the gap above the target. */
export function detour(from: Position, to: Position): Position[] {
  const side = from.x + NODE_WIDTH / 2 + 16;
  const gap = to.y - ROW / 2 - 8;
  return [
    { x: side, y: from.y },
    { x: side, y: gap },
    { x: to.x, y: gap },
  ];
}

/** Corners as Cytoscape wants them: how far along the straight line between two nodes, and how far from it. */
export function segments(
  from: Position,
  to: Position,
  corners: readonly Position[],
): { weights: number[]; distances: number[] } {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const along = corners.map(({ x, y }) => ((x - from.x) * dx + (y - from.y) * dy) / length ** 2);
  const aside = corners.map(({ x, y }) => ((y - from.y) * dx - (x - from.x) * dy) / length);
  return { weights: along, distances: aside };
}
