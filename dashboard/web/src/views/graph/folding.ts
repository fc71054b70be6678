// Long runs are folded: their steps in the middle become a few nodes that stand for many, until a person opens them.
// That is for drawing only; the table beside the graph always has every node.

import type { GraphEdge, GraphNode, RunGraph } from "@/run/runGraph";

/** A run with more steps than this is folded, except for its first and last steps. */
const LONG = 24;
const FIRST = 3;
const LAST = 9;
/** A fold stands for at most so many steps, and grows by so many at once: a graph that grows jumps seldom. */
const MOST = 100;
const GROWS = 10;

export interface Fold {
  readonly id: string;
  readonly kind: "fold";
  readonly label: string;
  readonly detail: string;
  readonly status: "done" | "failed";
  /** How many nodes it stands for. */
  readonly size: number;
}

export type Drawn = GraphNode | Fold;

export interface Drawing {
  readonly nodes: readonly Drawn[];
  readonly edges: readonly GraphEdge[];
  /** The fold that hides a node, by the node's id. */
  readonly hidden: ReadonlyMap<string, string>;
}

export function isFold(node: Drawn): node is Fold {
  return node.kind === "fold";
}

/** The graph as it is drawn, with these folds opened. */
export function fold({ nodes, edges }: RunGraph, opened: ReadonlySet<string>): Drawing {
  const hidden = new Map<string, string>();
  for (const steps of runs(nodes)) hide(steps, opened, hidden);
  return hidden.size ? { nodes: drawn(nodes, hidden), edges: joined(edges, hidden), hidden } : { nodes, edges, hidden };
}

type Step = readonly GraphNode[];

/** The steps of each run: a tick with all that came of it. What is before the first tick belongs to no step. */
function runs(nodes: readonly GraphNode[]): Step[][] {
  const found: Step[][] = [];
  let steps: Step[] = [];
  let step: GraphNode[] = [];
  for (const node of nodes) {
    if (node.kind === "run") {
      steps = [];
      step = [];
      found.push(steps);
    } else if (node.kind === "tick") {
      step = [node];
      steps.push(step);
    } else {
      step.push(node);
    }
  }
  return found;
}

function hide(steps: readonly Step[], opened: ReadonlySet<string>, hidden: Map<string, string>): void {
  if (steps.length <= LONG) return;
  const end = FIRST + Math.floor((steps.length - FIRST - LAST) / GROWS) * GROWS;
  // Folds begin at fixed places, so that one that was opened stays so while the run grows.
  for (let at = FIRST; at < end; at += MOST) {
    const begin = steps[at]?.[0];
    const id = `fold:${begin?.id}`;
    if (opened.has(id)) continue;
    for (const step of steps.slice(at, Math.min(at + MOST, end))) {
      for (const node of step) hidden.set(node.id, id);
    }
  }
}

function drawn(nodes: readonly GraphNode[], hidden: ReadonlyMap<string, string>): Drawn[] {
  const inside = new Map<string, GraphNode[]>();
  for (const node of nodes) {
    const id = hidden.get(node.id);
    if (id === undefined) continue;
    const known = inside.get(id);
    if (known) known.push(node);
    else inside.set(id, [node]);
  }
  const made: Drawn[] = [];
  const told = new Set<string>();
  for (const node of nodes) {
    const id = hidden.get(node.id);
    if (id === undefined) made.push(node);
    else if (!told.has(id)) {
      told.add(id);
      made.push(asFold(id, inside.get(id) ?? []));
    }
  }
  return made;
}

function asFold(id: string, nodes: readonly GraphNode[]): Fold {
  const ticks = nodes.filter(({ kind }) => kind === "tick");
  const failed = nodes.filter(({ status }) => status === "failed").length;
  return {
    id,
    kind: "fold",
    label: ticks.length === 1 ? "1 step" : `${ticks.length} steps`,
    detail: `${ticks[0]?.step} to ${ticks.at(-1)?.step}${failed ? `, ${failed} failed` : ""}`,
    status: failed ? "failed" : "done",
    size: nodes.length,
  };
}

/** Edges between what is drawn: those of hidden nodes are their fold's. */
function joined(edges: readonly GraphEdge[], hidden: ReadonlyMap<string, string>): GraphEdge[] {
  const made = new Map<string, GraphEdge>();
  for (const edge of edges) {
    const source = hidden.get(edge.source) ?? edge.source;
    const target = hidden.get(edge.target) ?? edge.target;
    if (source === target) continue;
    const id = `${source}>${target}`;
    if (!made.has(id)) made.set(id, { id, source, target, kind: edge.kind });
  }
  return [...made.values()];
}
