import { describe, expect, it } from "vitest";
import type { ThreadSummary } from "@/api/types";
import { parent, threadSummary } from "@/testing/samples";
import { ancestors, rows, tally, tree } from "@/threads/threadTree";

function thread(id: string, age: number, more: Partial<ThreadSummary> = {}, above?: string): ThreadSummary {
  return threadSummary(id, {
    createdAt: new Date(1e12 - age * 1000).toISOString(),
    updatedAt: new Date(1e12).toISOString(),
    parent: above ? parent(above) : null,
    ...more,
  });
}

const family = [
  thread("old", 90),
  thread("new", 10, { agentType: "manager" }),
  thread("second", 5, { status: "running" }, "new"),
  thread("first", 8, {}, "new"),
  thread("grandchild", 4, { status: "paused", reason: "hitl", agentType: "worker" }, "second"),
  thread("orphan", 50, {}, "gone"),
];
const all = { search: "", filter: "all" } as const;
const lines = (found: ReturnType<typeof rows>) => found.map(({ thread, depth }) => `${"  ".repeat(depth)}${thread.id}`);

describe("the tree", () => {
  it("has the newest first, and children in the order in which they were made", () => {
    expect(lines(rows(tree(family), new Set(), all))).toEqual([
      "new",
      "  first",
      "  second",
      "    grandchild",
      "orphan",
      "old",
    ]);
  });

  it("hides what is below a closed one", () => {
    const shown = rows(tree(family), new Set(["second"]), all);
    expect(lines(shown)).not.toContain("    grandchild");
    expect(shown.map(({ open }) => open)).toEqual([true, null, false, null, null]);
  });

  it("keeps the ancestors of what is looked for, even if they are closed", () => {
    const shown = rows(tree(family), new Set(["new", "second"]), { search: "WORKER", filter: "all" });
    expect(lines(shown)).toEqual(["new", "  second", "    grandchild"]);
    expect(shown.map(({ dim }) => dim)).toEqual([true, true, false]);
  });

  it("filters by what people look for", () => {
    expect(lines(rows(tree(family), new Set(), { search: "", filter: "running" }))).toEqual(["new", "  second"]);
    expect(tally(family)).toEqual({ all: 6, running: 1, waiting: 1, ended: 4, error: 0 });
  });

  it("finds titles, too", () => {
    const titled = family.map((each) => (each.id === "old" ? { ...each, title: "Should we deliver?" } : each));
    expect(lines(rows(tree(titled), new Set(), { search: "deliver", filter: "all" }))).toEqual(["old"]);
  });

  it("knows who is above whom", () => {
    const known = new Map(family.map((each) => [each.id, each]));
    expect(ancestors(known, "grandchild").map((each) => each.id)).toEqual(["second", "new"]);
    expect(ancestors(known, "new")).toEqual([]);
  });
});
