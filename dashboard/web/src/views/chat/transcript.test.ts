import { describe, expect, it } from "vitest";
import type { ThreadEvent } from "@/api/types";
import { message, pendingCall, threadEvent, toolCall } from "@/testing/samples";
import { thinking, transcript } from "@/views/chat/transcript";

let seq = 0;
const event = (type: ThreadEvent["type"], second: number, data: ThreadEvent["data"]) =>
  threadEvent(++seq, type, data, second);

const calling = message("assistant", "", {
  toolCalls: [toolCall("c1", "note", { a: 1 }), toolCall("c2", "task")],
});

const nothing = { subagents: [], pending: [], events: [], complete: true, running: false };

describe("the transcript", () => {
  it("puts results with their calls", () => {
    const entries = transcript({
      ...nothing,
      messages: [
        message("user", "go"),
        calling,
        message("tool", "noted", { toolCallId: "c1" }),
        message("tool", "Error: permission_denied: no", { toolCallId: "c2", meta: { status: "failure" } }),
        message("assistant", "done"),
      ],
    });
    expect(entries.map((each) => each.text)).toEqual(["go", "", "done"]);
    expect(entries[1]?.calls.map(({ state, result }) => [state, result])).toEqual([
      ["done", "noted"],
      ["denied", "Error: permission_denied: no"],
    ]);
  });

  it("shows a batch at work as events tell of it", () => {
    const [, entry] = transcript({
      ...nothing,
      running: true,
      messages: [message("user", "go"), calling],
      pending: [pendingCall("c2", { name: "task" })],
      events: [event("tool.started", 1, { callId: "c1" }), event("tool.output", 3, { callId: "c1", output: "noted" })],
    });
    expect(entry?.calls.map(({ state, result, ms }) => [state, result, ms])).toEqual([
      ["done", "noted", 2000],
      ["waiting", null, null],
    ]);
  });

  it("says what was decided on a call, who did, and the arguments that ran", () => {
    const resume = { decisions: { c1: "edit", c2: "respond" }, decidedBy: "Ann" };
    const modifiedToolCalls = [{ toolName: "note", callId: "c1", args: { a: 2 } }];
    const [, entry] = transcript({
      ...nothing,
      messages: [message("user", "go"), calling],
      events: [event("hitl.resume", 1, { ...resume, modifiedToolCalls })],
    });
    expect(entry?.calls.map(({ verdict, args }) => [verdict, args])).toEqual([
      [{ decision: "edit", by: "Ann", late: false, args: { a: 2 } }, { a: 1 }],
      [{ decision: "respond", by: "Ann", late: false, args: null }, {}],
    ]);
  });

  it("says what each reply took", () => {
    const reply = (second: number, tokens: number) => [
      event("model.started", second, {}),
      event("model.completed", second + 2, {
        model: "m",
        usage: { inputTokens: tokens, outputTokens: 1 },
        costUsd: 0.5,
      }),
    ];
    const messages = [message("user", "go"), message("assistant", "one"), message("assistant", "two")];
    const failed = event("model.completed", 2, { model: "m", error: { code: "X", message: "x" } });
    const whole = transcript({ ...nothing, messages, events: [failed, ...reply(10, 100), ...reply(20, 200)] });
    expect(whole.map((each) => each.spent?.tokens ?? null)).toEqual([null, 101, 201]);
    expect(whole[1]?.spent?.ms).toBe(2000);
    const partly = transcript({ ...nothing, messages, events: reply(20, 200), complete: false });
    expect(partly.map((each) => each.spent?.tokens ?? null)).toEqual([null, null, 201]);
    const unsettled = transcript({ ...nothing, messages, events: reply(20, 200), complete: false, running: true });
    expect(unsettled.every((each) => each.spent === null)).toBe(true);
  });

  it("finds what a model thought, in whatever shape", () => {
    expect(
      thinking({ model: "x", blocks: [{ type: "thinking", thinking: "hm", signature: "s" }, { type: "text" }] }),
    ).toBe("hm");
    expect(thinking({ reasoning_content: "so" })).toBe("so");
    expect(thinking({ reasoning_details: [{ type: "reasoning.text", text: "well" }] })).toBe("well");
    expect(thinking(null)).toBe("");
  });
});
