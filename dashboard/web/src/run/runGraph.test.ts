import { describe, expect, test } from "vitest";
import type { ThreadEvent } from "@/api/types";
import { type GraphNode, graphOf } from "@/run/runGraph";
import { longRun, Recording } from "@/testing/recording";

function of(events: ThreadEvent[], kind: GraphNode["kind"]): GraphNode[] {
  return graphOf(events).nodes.filter((node) => node.kind === kind);
}

function edges(events: ThreadEvent[]): string[] {
  return graphOf(events).edges.map(({ source, target, kind }) => `${source} ${kind} ${target}`);
}

const types = (events: ThreadEvent[], type: string) =>
  events.filter((event) => event.type === type).map(({ seq }) => seq);

describe("nodes", () => {
  test("each run, tick and model call is one, and is named after the event it began with", () => {
    const { events } = new Recording().begin().step(1).end().begin().step(1).end();
    const { nodes } = graphOf(events);
    for (const [kind, type] of [
      ["run", "run.started"],
      ["tick", "run.tick"],
      ["model", "model.started"],
    ] as const) {
      expect(nodes.filter((node) => node.kind === kind).map(({ id }) => id)).toEqual(
        types(events, type).map((seq) => `${kind}:${seq}`),
      );
    }
    expect(nodes.map(({ status }) => status)).toEqual(Array(6).fill("done"));
    expect(nodes.map(({ runId }) => runId)).toEqual([...Array(3).fill("thr.1"), ...Array(3).fill("thr.2")]);
  });

  test("a run tells who canceled it, and what it warned of", () => {
    const { events } = new Recording()
      .begin()
      .step(1)
      .add("runtime.warning", { kind: "unknown_stop", message: "…" })
      .add("run.canceled", { by: { kind: "person", name: "Ann" } });
    const [run] = of(events, "run");
    expect([run?.status, run?.detail]).toEqual(["canceled", "by Ann"]);
    expect(run?.seqs).toEqual(expect.arrayContaining(types(events, "runtime.warning")));
  });

  test("a call is one, from its start to its end", () => {
    const { events } = new Recording().begin().step(1).call("a").call("b").output("b").output("a").step(2).end();
    const calls = of(events, "tool");
    expect(calls.map(({ label, detail, status }) => [label, detail, status])).toEqual([
      ["note", "a", "done"],
      ["note", "b", "done"],
    ]);
    expect(calls.map(({ start, end }) => (end ?? 0) - start)).toEqual([120, 50 + 0]);
  });

  test("a call says what it waits for outside", () => {
    const waiting = new Recording().begin().step(1).call("a");
    waiting.add("tool.waiting", { toolName: "note", callId: "a", waitsFor: "the payment" });
    const { events } = waiting.add("run.paused", { reason: "outside" });
    expect(of(events, "tool").map(({ status, detail }) => [status, detail])).toEqual([
      ["waiting", "waits for the payment"],
    ]);
    expect(of(events, "run")[0]?.status).toBe("running");
  });

  test("a model that a tool asked is a node of its own, as long as it took", () => {
    const asking = new Recording().begin().step(1).call("a");
    const usage = { inputTokens: 3, outputTokens: 4 };
    const { events } = asking.add("model.asked", { model: "m", by: "note", callId: "a", durationMs: 25, usage });
    const aside = of(events, "model").at(-1);
    expect([aside?.label, aside?.status, (aside?.end ?? 0) - (aside?.start ?? 0)]).toEqual(["m for note", "done", 25]);
  });

  test("each attempt of a call is one; a later step may use its id again", () => {
    const again = new Recording().begin().step(1).call("a");
    again
      .add("tool.error", { toolName: "note", callId: "a", error: "not yet", kind: "external" })
      .add("tool.retried", { toolName: "note", callId: "a", attempt: 2, why: "error" })
      .call("a")
      .output("a");
    const { events } = again.step(2).call("a").output("a").step(3).end();
    const calls = of(events, "tool");
    expect(calls.map(({ label, status, seqs }) => [label, status, seqs.length])).toEqual([
      ["note", "failed", 3],
      ["note (attempt 2)", "done", 2],
      ["note", "done", 2],
    ]);
    expect(edges(events)).toContain(`${calls[0]?.id} next ${calls[1]?.id}`);
  });

  test("a process that went away leaves a gap, and what it did is lost and done again", () => {
    const died = new Recording().begin().step(1).call("a").call("b").output("b");
    const lastWorkAt = died.events.at(-1)?.ts ?? "";
    died.add("run.recovered", { attempt: 2, why: "died", doing: "tools", lastWorkAt }, 5_000);
    died.add("tool.retried", { toolName: "note", callId: "a", attempt: 2, why: "died" }, 0).output("a");
    died.add("run.tick", { step: 2 }).add("model.started", { model: "a:b" });
    died.add("run.recovered", { attempt: 3, why: "stopped", doing: "model", lastWorkAt }, 10);
    died.add("model.retried", { model: "a:b", attempt: 2, why: "stopped" }, 0);
    const { gaps } = graphOf(died.events);
    expect(gaps.map(({ from, to, died }) => [to - from, died])[0]).toEqual([5_000, true]);
    expect(of(died.events, "tool").map(({ label, status, detail }) => [label, status, detail])).toEqual([
      ["note", "lost", "a"],
      ["note", "done", "b"],
      ["note (attempt 2)", "done", "a"],
    ]);
    expect(of(died.events, "model").map(({ label, status }) => [label, status])).toEqual([
      ["demo:any", "done"],
      ["a:b", "lost"],
      ["a:b (attempt 2)", "running"],
    ]);
  });

  test("a call that was refused has no start, and is one all the same", () => {
    const { events } = new Recording()
      .begin()
      .step(1)
      .add("tool.error", { toolName: "nothing", callId: "a", error: "there is no such tool", kind: "invalid_request" });
    const [call] = of(events, "tool");
    expect([call?.id, call?.status, call?.seqs]).toEqual([`tool:${events.length}`, "failed", [events.length]]);
  });

  test("an approval is one, whatever it asks for, and ends with the last decision", () => {
    const asked = new Recording().begin().step(1);
    asked.add("hitl.interrupt", {
      proposedToolCalls: [
        { toolName: "pay", callId: "a", args: {} },
        { toolName: "ship", callId: "b", args: {} },
      ],
    });
    asked.add("run.paused", { reason: "hitl" });
    expect(of(asked.events, "approval").map(({ status, detail }) => [status, detail])).toEqual([
      ["waiting", "pay, ship"],
    ]);
    expect(of(asked.events, "run").map(({ status }) => status)).toEqual(["waiting"]);
    asked.add("hitl.resume", { approved: true, decisions: { a: "approve" } });
    expect(of(asked.events, "approval").map(({ status }) => status)).toEqual(["waiting"]);
    asked.add("hitl.resume", { approved: false, decisions: { b: "deny" } }).add("run.resumed");
    asked.call("a", "pay").output("a", "pay").step(2).end();
    const [approval] = of(asked.events, "approval");
    expect([approval?.status, approval?.seqs.length]).toEqual(["denied", 3]);
    expect(of(asked.events, "tool").map(({ label }) => label)).toEqual(["pay"]);
    expect(edges(asked.events)).toContain(`${approval?.id} next ${of(asked.events, "tool")[0]?.id}`);
  });

  test("a model call that failed is one, and so is the next try; one whose end is not stored is lost", () => {
    const tried = new Recording().begin().add("run.tick", { step: 1 }).add("model.started", { model: "a:b" });
    tried.add("model.completed", { model: "a:b", error: { code: "ERR_OVERLOADED", message: "later" } });
    tried.add("model.started", { model: "a:b" }).add("model.started", { model: "a:b" });
    expect(of(tried.events, "model").map(({ status }) => status)).toEqual(["failed", "lost", "running"]);
  });

  test("what goes on when a run ends is canceled, the run says how it ended", () => {
    const stopped = new Recording().begin().step(1).call("a");
    const canceled = [...stopped.events];
    stopped.add("agent.error", { code: "ERR_TURNS", error: "too many turns" });
    expect(graphOf(stopped.events).nodes.map(({ kind, status }) => `${kind} ${status}`)).toEqual([
      "run failed",
      "tick failed",
      "model done",
      "tool canceled",
    ]);
    expect(of(stopped.events, "run")[0]?.detail).toBe("ERR_TURNS");
    expect(of(canceled, "tool")[0]?.status).toBe("running");
  });
});

describe("edges", () => {
  test("a step follows all that the one before it did", () => {
    const { events } = new Recording().begin().step(1).call("a").call("b").output("a").output("b").step(2).end();
    const [run] = of(events, "run");
    const [first, second] = of(events, "tick");
    const [model, last] = of(events, "model");
    const [a, b] = of(events, "tool");
    expect(edges(events)).toEqual([
      `${run?.id} next ${first?.id}`,
      `${first?.id} next ${model?.id}`,
      `${model?.id} next ${a?.id}`,
      `${model?.id} next ${b?.id}`,
      `${a?.id} next ${second?.id}`,
      `${b?.id} next ${second?.id}`,
      `${second?.id} next ${last?.id}`,
    ]);
  });

  test("a child is spawned by a call and returns to the next step", () => {
    const family = new Recording().begin().step(1).call("a", "task");
    family.add("subagent.spawned", { childThreadId: "kid", agentType: "worker", callId: "a" });
    family.add("run.paused", { reason: "subagent" });
    expect(of(family.events, "run")[0]?.status).toBe("running");
    family.add("subagent.completed", { childThreadId: "kid", status: "completed", result: "found" }, 900);
    family.output("a", "task").add("run.resumed").step(2).end();
    const [child] = of(family.events, "child");
    expect([child?.label, child?.childThread, child?.status]).toEqual(["worker", "kid", "done"]);
    expect((child?.end ?? 0) - (child?.start ?? 0)).toBe(910);
    expect(edges(family.events)).toContain(`${of(family.events, "tool")[0]?.id} spawn ${child?.id}`);
    expect(edges(family.events)).toContain(`${child?.id} return ${of(family.events, "tick")[1]?.id}`);
  });

  test("a child that the run does not wait for goes on when the run has ended", () => {
    const family = new Recording().begin().step(1).call("a", "task");
    family.add("subagent.spawned", { childThreadId: "kid", agentType: "worker", callId: "a" }).output("a", "task");
    family.step(2).end();
    expect(of(family.events, "child")[0]?.status).toBe("running");
    family.add("subagent.completed", { childThreadId: "kid", status: "timed_out", result: "" });
    expect(of(family.events, "child")[0]?.status).toBe("failed");
  });

  test("they lead from older nodes to newer ones, and to nodes that are there", () => {
    const { nodes, edges } = graphOf(longRun(40));
    const place = new Map(nodes.map(({ id }, at) => [id, at]));
    for (const { source, target } of edges) {
      expect(place.get(source)).toBeLessThan(place.get(target) ?? -1);
    }
    expect(new Set(edges.map(({ id }) => id)).size).toBe(edges.length);
    expect(new Set(nodes.map(({ id }) => id)).size).toBe(nodes.length);
  });
});
