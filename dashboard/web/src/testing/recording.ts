// Events for tests, numbered and timed as a thread's are.

import type { EventType, JsonObject, ThreadEvent } from "@/api/types";

const BEGIN = Date.parse("2026-01-05T09:00:00.000Z");

export class Recording {
  readonly events: ThreadEvent[] = [];
  #now = BEGIN;
  #run = 0;

  add(type: EventType, data: JsonObject = {}, after = 10): this {
    this.#now += after;
    if (type === "run.started") this.#run += 1;
    const ts = new Date(this.#now).toISOString();
    const of = this.#run ? { runId: `thr.${this.#run}` } : {};
    this.events.push({ threadId: "thr", seq: this.events.length + 1, ts, type, data: { ...data, ...of } });
    return this;
  }

  begin(): this {
    if (!this.events.length) this.add("thread.created", { agentType: "clerk" });
    return this.add("run.started").add("request.accepted").add("agent.started");
  }

  /** A step: the tick, and a model call. */
  step(n: number): this {
    this.add("run.tick", { step: n }).add("middleware.before_model", { middlewareName: "planning" });
    return this.add("model.started", { model: "demo:any", messages: n }).add(
      "model.completed",
      { model: "demo:any", usage: { inputTokens: 10, outputTokens: 5 }, costUsd: null },
      100,
    );
  }

  call(callId: string, toolName = "note"): this {
    return this.add("tool.started", { toolName, callId, args: { what: callId } });
  }

  output(callId: string, toolName = "note"): this {
    return this.add("tool.output", { toolName, callId, output: "noted" }, 50).add("checkpoint.saved", { size: 1 });
  }

  end(): this {
    return this.add("agent.completed", { result: "done" });
  }
}

/** A run of so many steps, each with one call. */
export function longRun(steps: number): ThreadEvent[] {
  const recording = new Recording().begin();
  for (let n = 1; n <= steps; n += 1) recording.step(n).call(`c${n}`).output(`c${n}`);
  return recording.step(steps + 1).end().events;
}
