// A plan as `write_todos` writes it: its steps, read from a call, and in one line.

import type { Json } from "@/api/types";

export interface Todo {
  readonly content: string;
  readonly status?: "pending" | "in_progress" | "completed";
}

/** What the states of a step are called. */
export const TODO_WORDS = { pending: "to do", in_progress: "in progress", completed: "done" } as const;

/** The plan that a call of `write_todos` writes; null for other calls, and for what is no plan. */
export function todosOf(name: string, args: Json): Todo[] | null {
  if (name !== "write_todos" || args === null || typeof args !== "object" || Array.isArray(args)) return null;
  const { todos } = args;
  if (!Array.isArray(todos)) return null;
  const read = todos.map((each): Todo | null => {
    if (each === null || typeof each !== "object" || Array.isArray(each) || typeof each.content !== "string")
      return null;
    const status =
      typeof each.status === "string" && each.status in TODO_WORDS
        ? (each.status as keyof typeof TODO_WORDS)
        : "pending";
    return { content: each.content, status };
  });
  return read.includes(null) ? null : (read as Todo[]);
}

/** How far a plan is, in one line: what is being done, or how much is left. */
export function planBrief(todos: readonly Todo[]): string {
  const done = todos.filter(({ status }) => status === "completed").length;
  const now = todos.find(({ status }) => status === "in_progress");
  return `${done} of ${todos.length} done${now ? ` · now: ${now.content}` : ""}`;
}
