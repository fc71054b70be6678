import { expect, test } from "vitest";
import { planBrief, todosOf } from "@/run/todos";

test("a plan is read from its call, and other calls are none", () => {
  const todos = [
    { content: "ask", status: "completed" },
    { content: "bake", status: "in_progress" },
    { content: "eat" },
  ];
  const read = todosOf("write_todos", { todos });
  expect(read?.map(({ status }) => status)).toEqual(["completed", "in_progress", "pending"]);
  expect(planBrief(read ?? [])).toBe("1 of 3 done · now: bake");
  expect(planBrief([{ content: "ask", status: "completed" }])).toBe("1 of 1 done");
  expect(todosOf("note", { todos })).toBeNull();
  for (const wrong of [null, "x", [], { todos: "x" }, { todos: [1] }, { todos: [{ status: "completed" }] }]) {
    expect(todosOf("write_todos", wrong)).toBeNull();
  }
});
