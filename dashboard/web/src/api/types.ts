// What goes over the wire, as the gateway's OpenAPI document has it. Fields that newer gateways add are optional.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: Json };

export type RunStatus = "idle" | "running" | "paused" | "completed" | "canceled" | "error" | "queued";
export type PauseReason = "hitl" | "subagent" | "exhausted" | "manual";
export type Risk = "low" | "medium" | "high";

export interface Usage {
  input: number;
  output: number;
  cachedInput: number;
  cacheWrite: number;
  reasoning: number;
}

export interface Part {
  tokensUsed: Usage;
  costUsd: number | null;
}

export interface Limits {
  turns?: number | null;
  timeMs?: number | null;
  tokens?: number | null;
  costUsd?: number | null;
}

// Agencies.

export interface Agency {
  id: string;
  name: string;
  createdAt: string;
  budget: Limits;
}

export interface Use {
  turns: number;
  activeMs: number;
  tokensUsed: Usage;
  costUsd: number | null;
}

export interface AgencyUsage extends Use {
  children: Use;
  threads: number;
  budget: Limits;
  exhausted: string | null;
}

export type KeyRole = "viewer" | "operator" | "admin";

export interface Key {
  id: string;
  name: string;
  role: KeyRole;
  createdAt: string;
}

export interface PolicyRule {
  tool: string;
  when?: JsonObject | null;
  risk: Risk;
}

export interface Policy {
  rules: PolicyRule[];
  timeoutMs: number | null;
  onTimeout: "deny" | "approve";
}

// Blueprints.

export interface Blueprint {
  name: string;
  description: string;
  prompt: string;
  tags: string[];
  model: Json;
  requires: string[];
  params: JsonObject;
  outputSchema: JsonObject | null;
  config: JsonObject;
  status: "active" | "draft" | "disabled";
  limits: Limits;
  mode: "tools" | "code";
  isolation: "shared" | "dedicated";
  source: "static" | "agency";
  createdAt: string | null;
  updatedAt: string | null;
}

// Threads.

export interface Parent {
  threadId: string;
  token: string;
  root?: string | null;
  depth?: number;
}

export interface ThreadMetadata {
  id: string;
  agentType: string;
  createdAt: string;
  agencyId: string;
  parent: Parent | null;
  forkedFrom?: { threadId: string; seq: number } | null;
}

export interface ThreadSummary extends ThreadMetadata {
  status: RunStatus;
  reason: PauseReason | null;
  seq: number;
  updatedAt: string;
  tokensUsed: Usage;
  costUsd: number | null;
  children: Part;
}

export interface Image {
  mediaType?: string | null;
  data?: string | null;
  url?: string | null;
}

export interface ToolCall {
  id: string;
  name: string;
  args: Json;
}

export interface Message {
  id: string;
  role: "system" | "user" | "assistant" | "tool";
  content: string;
  images: Image[];
  toolCalls: ToolCall[];
  toolCallId: string | null;
  origin: string | null;
  transient: boolean;
  meta: Json;
}

export interface ToolSpec {
  name: string;
  description: string;
  parameters: JsonObject;
}

export interface Todo {
  content: string;
  status: "pending" | "in_progress" | "completed";
}

export interface Subagent {
  childThreadId: string;
  agentType: string;
  token: string;
  status: "waiting" | "completed" | "failed" | "canceled" | "timed_out";
  toolCallId: string;
  createdAt: string;
  completedAt: string | null;
  report: string | null;
  background?: boolean;
}

export interface AgentState {
  messages: Message[];
  tools: ToolSpec[];
  thread: ThreadMetadata;
  threadId: string;
  parent: Parent | null;
  agentType: string;
  model: string;
  todos?: Todo[];
  files?: Record<string, string>;
  subagents?: Subagent[];
  /** What other middleware add. */
  [more: string]: unknown;
}

export interface RunState {
  runId: string;
  status: RunStatus;
  step: number;
  reason: PauseReason | null;
}

export interface PendingCall extends ToolCall {
  risk: Risk;
  note: string;
  kind?: "approval" | "in_doubt";
  approvalId?: string;
  expiresAt?: string | null;
  onTimeout?: "deny" | "approve";
}

export interface ModelAttempt {
  model: string;
  turn: number;
  code: string;
  message: string;
  requestId: string | null;
  at: string;
}

export interface RunEnvelope {
  runId: string;
  status: RunStatus;
  data: Json;
  meta: {
    threadId: string;
    agentType: string;
    turns: number;
    tokensUsed: Usage;
    costUsd: number | null;
    children: Part;
    model: string | null;
    attempts: ModelAttempt[];
    durationMs: number;
    pauseReason: PauseReason | null;
    pendingToolCalls: PendingCall[];
    limits?: Limits;
  };
  errors: { code: string; message: string }[];
  timestamp: number;
}

export type Decision =
  | { decision: "approve" }
  | { decision: "always" }
  | { decision: "edit"; args: JsonObject }
  | { decision: "deny"; reason?: string }
  | { decision: "respond"; content: string };

export interface Approval {
  threadId: string;
  agentType: string;
  runId: string;
  since: string;
  kind?: "calls" | "limit";
  parentId?: string | null;
  calls: PendingCall[];
  code?: string | null;
}

/** When a message that comes during a run is heard. */
export type When = "next_step" | "next_run" | "now";

// Events.

export type EventType =
  | "thread.created"
  | "request.accepted"
  | "run.started"
  | "run.tick"
  | "run.paused"
  | "run.resumed"
  | "run.canceled"
  | "agent.started"
  | "agent.completed"
  | "agent.error"
  | "checkpoint.saved"
  | "model.started"
  | "model.delta"
  | "model.completed"
  | "middleware.before_model"
  | "middleware.after_model"
  | "tool.started"
  | "tool.output"
  | "tool.error"
  | "hitl.interrupt"
  | "hitl.resume"
  | "subagent.spawned"
  | "subagent.completed";

/** An event that is stored: its `seq` counts from 1 without a gap. */
export interface ThreadEvent {
  threadId: string;
  seq: number;
  ts: string;
  type: EventType;
  data: JsonObject;
}

/** A piece of a model's text, as it comes: never stored. */
export interface Delta {
  threadId: string;
  seq: null;
  ts: string;
  type: "model.delta";
  data: { runId: string; delta: string; offset: number };
}

export type Incoming = ThreadEvent | Delta;

export interface AgencyEvent extends ThreadEvent {
  cursor: number;
}

// Schedules.

export interface Schedule {
  id: string;
  name: string;
  agentType: string;
  message: string;
  kind: "once" | "interval" | "cron";
  at?: string | null;
  everyMs?: number | null;
  cron?: string | null;
  timezone: string;
  overlap: "skip" | "queue" | "allow";
  catchUp: "one" | "none";
  status: "active" | "paused" | "done";
  nextAt: string | null;
  createdAt: string;
  updatedAt: string;
}

export type ScheduleWanted = Pick<
  Schedule,
  "name" | "agentType" | "message" | "kind" | "at" | "everyMs" | "cron" | "timezone" | "overlap" | "catchUp"
>;

export interface ScheduleRun {
  id: string;
  scheduleId: string;
  dueAt: string;
  startedAt: string | null;
  threadId: string | null;
  status: string;
  by: "schedule" | "person";
  error?: string | null;
}

// Files.

export interface FileEntry {
  path: string;
  size: number;
}

// The installation.

export interface NodeStatus {
  id: string;
  budget: number;
  hosts: number;
}

export interface HostStatus {
  name: string;
  node: string;
  role: string;
  state: "starting" | "ready" | "busy";
  threads: string[];
  pid: number | null;
  working: number;
  rssBytes: number | null;
}

export interface InstallationStatus {
  nodes: NodeStatus[];
  hosts: HostStatus[];
  agencies: string[];
  awake: number;
  hibernated: number;
  alarms: Record<string, number>;
}
