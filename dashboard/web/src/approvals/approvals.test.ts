import { describe, expect, it } from "vitest";
import type { RunEnvelope, ThreadSummary } from "@/api/types";
import { explain, parse, problems } from "@/approvals/checkArguments";
import { approvalIdOf, byThread, inInbox, waitingAt } from "@/approvals/waiting";
import { approval, pendingCall as call } from "@/testing/samples";

const schema = {
  type: "object",
  properties: { cents: { type: "integer", maximum: 500 }, token: { type: "string", pattern: "^tok_" } },
  required: ["cents"],
  additionalProperties: false,
};

const EXHAUSTED = { code: "ERR_TOKENS", message: "", kind: "exhausted", requestId: null, providerStatus: null };

describe("edited arguments", () => {
  it("must be JSON, and an object", () => {
    expect(parse("{")).toHaveProperty("problem", expect.stringContaining("That is not JSON yet"));
    expect(parse("[1]")).toHaveProperty("problem", expect.stringContaining("The arguments are an object"));
    expect(parse('{"a": 1}')).toEqual({ value: { a: 1 } });
  });

  it("must be what the tool takes", async () => {
    expect(await problems({ cents: 100 }, schema)).toEqual([]);
    expect((await problems({ cents: "a lot" }, schema)).join()).toContain("cents");
    expect((await problems({ cents: 501 }, schema)).join()).toContain("cents");
    expect((await problems({}, schema)).join()).toContain("cents");
    expect(await problems({ cents: 1, more: 2 }, schema)).not.toEqual([]);
  });

  it("may leave what is hidden or cut as it is", async () => {
    expect(await problems({ cents: 1, token: "••••••" }, schema)).toEqual([]);
    expect(await problems({ cents: 1, token: "abc… (1,200 more characters)" }, schema)).toEqual([]);
    expect(await problems({ cents: 1, token: "abc" }, schema)).not.toEqual([]);
  });

  it("are told about once, where it is wrong", () => {
    const faults = [
      { instanceLocation: "#", keyword: "properties", error: "inside" },
      { instanceLocation: "#/cents", keyword: "type", error: "not a number" },
    ];
    expect(explain(faults, { cents: "x" })).toEqual(["cents: not a number"]);
  });

  it("that the tool does not have are named", async () => {
    expect(await problems({ cents: 1, x: 2 }, schema)).toEqual(["there is no argument x"]);
  });

  it("are left to the gateway where a schema cannot be read", async () => {
    expect(await problems({ a: 1 }, { $ref: "#/nowhere" })).toEqual([]);
    expect(await problems({ a: 1 }, null)).toEqual([]);
  });
});

describe("what waits", () => {
  const threads = new Map(
    [
      ["child", "here"],
      ["grandchild", "child"],
      ["stranger", "other"],
    ].map(([id, parent]) => [id as string, { id, parent: { threadId: parent, token: "" } } as ThreadSummary]),
  );
  threads.set("here", { id: "here", parent: null } as ThreadSummary);

  const here = (envelope: Partial<RunEnvelope["meta"]>, errors: RunEnvelope["errors"] = []) => ({
    threadId: "here",
    agentType: "clerk",
    envelope: { meta: { pendingToolCalls: [], pauseReason: null, ...envelope }, errors } as unknown as RunEnvelope,
    subagents: [],
  });

  it("at a thread is its own and that of all below it, and no other’s", () => {
    const found = waitingAt(
      here({ pendingToolCalls: [call("own")] }),
      [approval("here"), approval("grandchild"), approval("stranger")],
      threads,
    );
    expect(found.calls.map(({ threadId, call }) => [threadId, call.id])).toEqual([
      ["here", "own"],
      ["grandchild", "c1"],
    ]);
  });

  it("includes a child that the list does not know yet", () => {
    expect(waitingAt(here({}), [approval("fresh", { parentId: "here" })], threads).calls).toHaveLength(1);
  });

  it("may be a limit, of its own or of one below it", () => {
    const own = waitingAt(here({ pauseReason: "exhausted" }, [EXHAUSTED]), [], threads);
    expect(own.limits.map((each) => each.code)).toEqual(["ERR_TOKENS"]);
    const inbox = inInbox([approval("child", { kind: "limit", code: "ERR_TURNS", calls: [] })]);
    expect(inbox).toEqual({ calls: [], limits: [expect.objectContaining({ code: "ERR_TURNS", threadId: "child" })] });
  });

  it("is decided on under the id that names exactly this call", () => {
    expect(approvalIdOf(call("c1", { approvalId: "" }))).toBe("c1");
    expect(approvalIdOf(call("c1", { approvalId: "apr_9" }))).toBe("apr_9");
    const { calls } = inInbox([approval("x", { calls: [call("c1"), call("c2")] }), approval("y")]);
    const decisions = byThread(calls, { decision: "approve" });
    expect([...decisions].map(([thread, each]) => [thread, Object.keys(each)])).toEqual([
      ["x", ["thr:c1", "thr:c2"]],
      ["y", ["thr:c1"]],
    ]);
  });
});
