import { describe, expect, test } from "vitest";
import type { Message } from "@/api/types";
import { callsOf, compared } from "@/views/compare/comparison";

const message = (role: Message["role"], content: string, more: Partial<Message> = {}) =>
  ({ id: `${Math.random()}`, role, content, toolCalls: [], images: [], ...more }) as Message;

describe("comparing", () => {
  test("what both begin with is told apart from what each goes on with, whatever the ids are", () => {
    const both = () => [message("user", "bread?"), message("assistant", "yes")];
    const { common, pairs } = compared([...both(), message("user", "rye")], [...both(), message("user", "wheat")]);
    expect(common.map(({ content }) => content)).toEqual(["bread?", "yes"]);
    expect(pairs.map(({ left, right }) => [left?.content, right?.content])).toEqual([["rye", "wheat"]]);
  });

  test("one that goes on alone has nothing beside it; the same calls with other arguments differ", () => {
    const call = (id: string) => message("assistant", "", { toolCalls: [{ id, name: "bake", args: { id } }] as never });
    const { common, pairs } = compared(
      [call("a")],
      [call("b"), message("tool", "burnt", { meta: { status: "failure" } })],
    );
    expect([common.length, pairs.length, pairs[1]?.left]).toEqual([0, 2, null]);
    const calls = callsOf(pairs.map(({ right }) => right));
    expect([...calls.byName, calls.failed]).toEqual([["bake", 1], 1]);
  });
});
