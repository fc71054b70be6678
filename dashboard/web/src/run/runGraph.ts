// A thread's events as a graph: what was done, how long it took, and what led to what.
//
// Each run, tick, model call, tool call, approval and child is one node, named after the event that it began with, and
// nothing else is a node: what is drawn can be compared with what is stored. A call that ran twice is two nodes, one for
// each attempt; an attempt that was lost with its process ends where another process took the run up. Edges lead from older nodes to newer ones
// only, so that the order of the nodes is one in which a graph can be laid out.

import type { Json, JsonObject, ThreadEvent } from "@/api/types";
import { type Canceler, cancelerWords } from "@/run/facts";
import { planBrief, todosOf } from "@/run/todos";
import { brief } from "@/text/format";

export type Kind = "run" | "tick" | "model" | "tool" | "approval" | "child";
export const KINDS: readonly Kind[] = ["run", "tick", "model", "tool", "approval", "child"];

export type NodeStatus = "running" | "waiting" | "done" | "failed" | "denied" | "canceled" | "lost";

export interface GraphNode {
  /** `kind:seq`, the seq being that of its first event. */
  readonly id: string;
  readonly kind: Kind;
  readonly label: string;
  /** What tells it from others of its kind, in one line. */
  readonly detail: string;
  readonly status: NodeStatus;
  readonly runId: string;
  /** The tick that it belongs to; 0 before the first of a run. */
  readonly step: number;
  readonly start: number;
  /** Null while it goes on. */
  readonly end: number | null;
  /** The events that tell of it, oldest first. */
  readonly seqs: readonly number[];
  /** The thread of a child. */
  readonly childThread: string | null;
  /** Which attempt of a model call or a tool call it is. */
  readonly attempt: number;
}

/** From the last sign of life of a process that went away to the moment when another took the run up. */
export interface Gap {
  readonly from: number;
  readonly to: number;
  readonly died: boolean;
}

type EdgeKind = "next" | "spawn" | "return";

export interface GraphEdge {
  readonly id: string;
  readonly source: string;
  readonly target: string;
  readonly kind: EdgeKind;
}

export interface RunGraph {
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
  readonly gaps: readonly Gap[];
}

export function graphOf(events: readonly ThreadEvent[]): RunGraph {
  const building = new Building();
  for (const event of events) building.take(event);
  return { nodes: building.nodes, edges: building.edges, gaps: building.gaps };
}

/** The arguments of a call in one line; of a plan, how far it is. */
function argsBrief(name: string, args: Json): string {
  const todos = todosOf(name, args);
  return todos ? planBrief(todos) : brief(args);
}

type Draft = { -readonly [name in keyof GraphNode]: GraphNode[name] } & { seqs: number[] };

class Building {
  readonly nodes: Draft[] = [];
  readonly edges: GraphEdge[] = [];
  readonly gaps: Gap[] = [];
  #run: Draft | null = null;
  #tick: Draft | null = null;
  #model: Draft | null = null;
  /** Which attempt the next model call is. */
  #tries = 1;
  /** The calls since the last tick, by their ids, which models may use again later. */
  #calls = new Map<string, Draft>();
  /** The approval that each call waits for, or has been given by. */
  #gates = new Map<string, Draft>();
  /** The calls that an approval still waits for. */
  #undecided = new Map<Draft, Set<string>>();
  #denied = new Set<Draft>();
  #children = new Map<string, Draft>();
  /** What ends with the run at the latest. Children do not: one that the run does not wait for goes on. */
  #unended = new Set<Draft>();
  /** The nodes that the next step follows. */
  #ends = new Set<Draft>();
  /** Children that have reported since the last step. */
  #returned = new Set<Draft>();

  take(event: ThreadEvent): void {
    const { type, data } = event;
    switch (type) {
      case "run.started":
        this.#beginRun(event);
        break;
      case "run.tick":
        this.#beginTick(event);
        break;
      case "run.paused":
        this.#paused(event);
        break;
      case "run.resumed":
        if (this.#run) this.#note(this.#run, event, "running");
        break;
      case "run.recovered":
        this.#recovered(event);
        break;
      case "model.retried":
        this.#modelAgain(event);
        break;
      case "tool.retried":
        this.#callAgain(event);
        break;
      case "agent.started":
      case "runtime.warning":
      case "capabilities.resolved":
        if (this.#run) this.#note(this.#run, event);
        break;
      case "agent.completed":
        this.#endRun(event, "done");
        break;
      case "agent.error":
        this.#endRun(event, "failed");
        break;
      case "run.canceled":
        this.#endRun(event, "canceled");
        break;
      case "model.started":
        this.#beginModel(event);
        break;
      case "model.completed":
        this.#endModel(event);
        break;
      case "model.asked":
        this.#asked(event);
        break;
      case "tool.started":
        this.#beginCall(event);
        break;
      case "tool.output":
        this.#endCall(event, "done");
        break;
      case "tool.error":
        this.#endCall(event, data.kind === "canceled" ? "canceled" : "failed");
        break;
      case "tool.waiting":
        this.#waits(event);
        break;
      case "hitl.interrupt":
        this.#ask(event);
        break;
      case "hitl.resume":
        this.#decided(event);
        break;
      case "subagent.spawned":
        this.#spawn(event);
        break;
      case "subagent.completed":
        this.#report(event);
        break;
      default: // requests, checkpoints and middleware are no steps of their own; the table of events has them
    }
  }

  // Runs and their steps.

  #beginRun(event: ThreadEvent): void {
    const n = text(event.data.runId).split(".").at(-1) ?? "";
    this.#unended.clear();
    this.#tick = null;
    const run = this.#add(event, "run", `Run ${n}`, "");
    this.#run = run;
    this.#lead(this.#ends, run);
    this.#step(run);
  }

  #beginTick(event: ThreadEvent): void {
    if (this.#tick) close(this.#tick, event, "done");
    const step = typeof event.data.step === "number" ? event.data.step : 0;
    const tick = this.#add(event, "tick", `Step ${step}`, "");
    tick.step = step;
    this.#tick = tick;
    this.#lead(this.#ends, tick);
    this.#step(tick);
    this.#calls.clear();
    this.#gates.clear();
  }

  #paused(event: ThreadEvent): void {
    if (this.#run)
      this.#note(this.#run, event, ["subagent", "outside"].includes(text(event.data.reason)) ? "running" : "waiting");
  }

  #recovered(event: ThreadEvent): void {
    if (this.#run) this.#note(this.#run, event);
    const { lastWorkAt, why } = event.data;
    const to = Date.parse(event.ts);
    this.gaps.push({ from: Math.min(to, Date.parse(text(lastWorkAt)) || to), to, died: why === "died" });
  }

  #endRun(event: ThreadEvent, status: NodeStatus): void {
    const run = this.#run;
    if (run === null) return;
    run.detail = endOf(event);
    run.seqs.push(event.seq);
    for (const node of this.#unended) {
      const own = node === run || node === this.#tick;
      if (node.end === null) close(node, event, own ? status : "canceled");
    }
    this.#unended.clear();
    this.#tick = null;
  }

  // Models.

  #beginModel(event: ThreadEvent): void {
    if (this.#model?.end === null) close(this.#model, event, "lost"); // as earlier releases tell of a process that died
    const model = this.#add(event, "model", nthTry(text(event.data.model) || "model", this.#tries), "");
    model.attempt = this.#tries;
    this.#lead(this.#ends, model);
    this.#step(model);
    this.#model = model;
  }

  /** A model is asked again: `model.started` follows one that failed; one that was lost is made again at once. */
  #modelAgain(event: ThreadEvent): void {
    this.#tries = attemptOf(event);
    if (!isLost(event)) this.#model?.seqs.push(event.seq);
    else this.#beginModel(event);
  }

  #endModel(event: ThreadEvent): void {
    const model = this.#model;
    if (model === null || model.end !== null) return;
    this.#tries = 1;
    const { error, usage } = event.data;
    model.seqs.push(event.seq);
    model.detail = isObject(error) ? text(error.code) : tokens(usage);
    close(model, event, isObject(error) ? "failed" : "done");
  }

  /** A model that a tool or a middleware has asked: one event, which tells how long that took. */
  #asked(event: ThreadEvent): void {
    const { error, usage, durationMs } = event.data;
    const aside = this.#add(event, "model", `${text(event.data.model)} for ${text(event.data.by)}`, "");
    aside.start -= typeof durationMs === "number" ? durationMs : 0;
    aside.detail = isObject(error) ? text(error.code) : tokens(usage);
    const from = this.#calls.get(text(event.data.callId)) ?? this.#tick ?? this.#run;
    if (from) this.edges.push({ id: `${from.id}>${aside.id}`, source: from.id, target: aside.id, kind: "next" });
    close(aside, event, isObject(error) ? "failed" : "done");
  }

  // Tools, and the persons that are asked about them.

  #beginCall(event: ThreadEvent): void {
    const id = text(event.data.callId);
    const known = this.#calls.get(id);
    this.#addCall(event, id, known);
  }

  /** A call runs again: `tool.started` follows one that failed; one that was lost runs again at once. */
  #callAgain(event: ThreadEvent): void {
    const id = text(event.data.callId);
    const known = this.#calls.get(id);
    if (!isLost(event)) known?.seqs.push(event.seq);
    else this.#addCall(event, id, known);
  }

  /** `before` is the attempt before this one. */
  #addCall(event: ThreadEvent, id: string, before?: Draft): Draft {
    const name = text(event.data.toolName) || "tool";
    const detail = event.data.args === undefined ? (before?.detail ?? "") : cut(argsBrief(name, event.data.args));
    const attempt = before ? before.attempt + 1 : 1;
    const call = this.#add(event, "tool", nthTry(name, attempt), detail);
    call.attempt = attempt;
    if (before && before.end === null) close(before, event, "lost");
    const gate = this.#gates.get(id);
    const asked = gate && before && this.nodes.indexOf(gate) > this.nodes.indexOf(before); // whether to run it again
    const from = (asked ? gate : (before ?? gate)) ?? this.#model ?? this.#tick ?? this.#run;
    if (from) this.#lead([from], call);
    this.#ends.add(call);
    this.#calls.set(id, call);
    return call;
  }

  #endCall(event: ThreadEvent, status: NodeStatus): void {
    const id = text(event.data.callId);
    const known = this.#calls.get(id);
    const call = known ?? this.#addCall(event, id); // one that was refused never began
    if (known) call.seqs.push(event.seq);
    close(call, event, status);
  }

  /** A call waits for the outside. */
  #waits(event: ThreadEvent): void {
    const call = this.#calls.get(text(event.data.callId));
    if (!call) return;
    this.#note(call, event, "waiting");
    call.detail = `waits for ${text(event.data.waitsFor)}`;
  }

  #ask(event: ThreadEvent): void {
    const calls = Array.isArray(event.data.proposedToolCalls) ? event.data.proposedToolCalls.filter(isObject) : [];
    const title = event.data.kind === "in_doubt" ? "In doubt" : "Approval";
    const approval = this.#add(event, "approval", title, calls.map((call) => text(call.toolName)).join(", "));
    approval.status = "waiting";
    const ids = calls.map((call) => text(call.callId));
    const began = ids.map((id) => this.#calls.get(id)).filter((call) => call !== undefined);
    const from = began.length ? began : [this.#model ?? this.#tick ?? this.#run].filter((each) => each !== null);
    this.#lead(from, approval);
    this.#ends.add(approval);
    for (const id of ids) this.#gates.set(id, approval);
    this.#undecided.set(approval, new Set(ids));
  }

  #decided(event: ThreadEvent): void {
    const decisions = isObject(event.data.decisions) ? event.data.decisions : {};
    const noted = new Set<Draft>();
    for (const [id, decision] of Object.entries(decisions)) {
      const approval = this.#gates.get(id);
      if (!approval) continue;
      if (!noted.has(approval)) approval.seqs.push(event.seq);
      noted.add(approval);
      const left = this.#undecided.get(approval);
      left?.delete(id);
      if (decision === "deny") this.#denied.add(approval);
      if (left?.size === 0) close(approval, event, this.#denied.has(approval) ? "denied" : "done");
    }
  }

  // Children.

  #spawn(event: ThreadEvent): void {
    const thread = text(event.data.childThreadId);
    const child = this.#add(event, "child", text(event.data.agentType) || "child", thread);
    child.childThread = thread;
    const call = this.#calls.get(text(event.data.callId));
    const from = call ?? this.#model ?? this.#tick ?? this.#run;
    if (from) this.#lead([from], child, "spawn");
    this.#children.set(thread, child);
  }

  #report(event: ThreadEvent): void {
    const child = this.#children.get(text(event.data.childThreadId));
    if (!child) return;
    const said = text(event.data.status);
    const status = said === "completed" ? "done" : said === "canceled" ? "canceled" : "failed";
    child.seqs.push(event.seq);
    close(child, event, status);
    this.#returned.add(child);
  }

  // What they all do.

  #add(event: ThreadEvent, kind: Kind, label: string, detail: string): Draft {
    const node: Draft = {
      id: `${kind}:${event.seq}`,
      kind,
      label,
      detail,
      status: "running",
      runId: text(event.data.runId),
      step: kind === "run" ? 0 : (this.#tick?.step ?? 0),
      start: Date.parse(event.ts),
      end: null,
      seqs: [event.seq],
      childThread: null,
      attempt: 1,
    };
    this.nodes.push(node);
    if (kind !== "child") this.#unended.add(node);
    return node;
  }

  #note(node: Draft, event: ThreadEvent, status: NodeStatus = node.status): void {
    node.seqs.push(event.seq);
    node.status = status;
  }

  #lead(from: Iterable<Draft>, target: Draft, kind: EdgeKind = "next"): void {
    for (const source of from) {
      this.#ends.delete(source);
      this.edges.push({ id: `${source.id}>${target.id}`, source: source.id, target: target.id, kind });
    }
  }

  /** From here the work goes on, with what the children have said. */
  #step(node: Draft): void {
    this.#lead(this.#returned, node, "return");
    this.#returned.clear();
    this.#ends.clear();
    this.#ends.add(node);
  }
}

/** How a run has ended, in one line. */
function endOf({ type, data }: ThreadEvent): string {
  if (type === "agent.error") return text(data.code);
  if (type === "run.canceled") return isObject(data.by) ? `by ${cancelerWords(data.by as unknown as Canceler)}` : "";
  return oneLine(data.result ?? "");
}

function nthTry(name: string, attempt: number): string {
  return attempt > 1 ? `${name} (attempt ${attempt})` : name;
}

/** Whether an attempt has no end of its own, because its process went away. */
function isLost({ data }: ThreadEvent): boolean {
  return data.why === "died" || data.why === "stopped";
}

function attemptOf({ data }: ThreadEvent): number {
  return typeof data.attempt === "number" ? data.attempt : 2;
}

function close(node: Draft, event: ThreadEvent, status: NodeStatus): void {
  node.status = status;
  node.end = Math.max(node.start, Date.parse(event.ts));
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

const LINE = 120;

function oneLine(value: Json): string {
  const said = typeof value === "string" ? value : JSON.stringify(value);
  return cut(said.replace(/\s+/g, " ").trim());
}

function cut(line: string): string {
  return line.length > LINE ? `${line.slice(0, LINE - 1)}…` : line;
}

function tokens(usage: Json | undefined): string {
  if (!isObject(usage)) return "";
  const { inputTokens, outputTokens } = usage;
  return `${inputTokens ?? 0} in, ${outputTokens ?? 0} out`;
}
