// Threads as a tree of parents and children, and the rows of it that are shown.

import type { RunStatus, ThreadSummary } from "@/api/types";

interface TreeNode {
  thread: ThreadSummary;
  children: TreeNode[];
}

export interface Row {
  thread: ThreadSummary;
  depth: number;
  /** Whether its children are shown; null if it has none. */
  open: boolean | null;
  /** Shown for the sake of one below it. */
  dim: boolean;
}

/** Groups of statuses that people look for. */
export const FILTERS = ["all", "running", "waiting", "ended", "error"] as const;
export type Filter = (typeof FILTERS)[number];

interface Wanted {
  search: string;
  filter: Filter;
}

/** Threads without a parent here, newest first; children in the order in which they were made. */
export function tree(threads: Iterable<ThreadSummary>): TreeNode[] {
  const nodes = new Map<string, TreeNode>();
  for (const thread of threads) nodes.set(thread.id, { thread, children: [] });
  const roots: TreeNode[] = [];
  for (const node of nodes.values()) {
    const parent = node.thread.parent ? nodes.get(node.thread.parent.threadId) : undefined;
    (parent ? parent.children : roots).push(node);
  }
  for (const node of nodes.values()) if (node.children.length > 1) node.children.sort(byAge);
  return roots.sort((a, b) => byAge(b, a));
}

function byAge({ thread: a }: TreeNode, { thread: b }: TreeNode): number {
  if (a.createdAt !== b.createdAt) return a.createdAt < b.createdAt ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}

/** The rows to show: those that are wanted with their ancestors, and nothing below what is closed. */
export function rows(roots: readonly TreeNode[], closed: ReadonlySet<string>, wanted: Wanted): Row[] {
  const matches = matcher(wanted);
  const shown: Row[] = [];
  const walk = (node: TreeNode, depth: number): boolean => {
    const at = shown.length;
    const own = matches === null || matches(node.thread);
    const folded = matches === null && closed.has(node.thread.id);
    const open = node.children.length === 0 ? null : !folded;
    shown.push({ thread: node.thread, depth, open, dim: !own });
    let any = own;
    if (!folded) for (const child of node.children) any = walk(child, depth + 1) || any;
    if (!any) shown.length = at;
    return any;
  };
  for (const root of roots) walk(root, 0);
  return shown;
}

function matcher({ search, filter }: Wanted): ((thread: ThreadSummary) => boolean) | null {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0 && filter === "all") return null;
  return (thread) => {
    if (filter !== "all" && filterOf(thread.status, thread.reason) !== filter) return false;
    if (words.length === 0) return true;
    const text = `${thread.agentType} ${thread.id} ${thread.status} ${thread.title ?? ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
}

function filterOf(status: RunStatus, reason: ThreadSummary["reason"]): Filter | null {
  switch (status) {
    case "running":
    case "queued":
      return "running";
    case "paused":
      return reason === "subagent" || reason === "outside" ? "running" : "waiting";
    case "completed":
    case "canceled":
      return "ended";
    case "error":
      return "error";
    default:
      return null;
  }
}

/** How many there are of each. */
export function tally(threads: Iterable<ThreadSummary>): Record<Filter, number> {
  const found: Record<Filter, number> = { all: 0, running: 0, waiting: 0, ended: 0, error: 0 };
  for (const { status, reason } of threads) {
    found.all += 1;
    const filter = filterOf(status, reason);
    if (filter !== null) found[filter] += 1;
  }
  return found;
}

/** From a thread up to the first one, as far as they are known. */
export function ancestors(threads: ReadonlyMap<string, ThreadSummary>, id: string): ThreadSummary[] {
  const found: ThreadSummary[] = [];
  let at = threads.get(id)?.parent?.threadId;
  while (at !== undefined) {
    const thread = threads.get(at);
    if (thread === undefined || found.includes(thread)) break;
    found.push(thread);
    at = thread.parent?.threadId;
  }
  return found;
}
