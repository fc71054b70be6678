// Values as the gateway sends them, whole, for tests: each takes what matters to the test.

import type {
  Agency,
  Approval,
  Blueprint,
  Message,
  PendingCall,
  ThreadEvent,
  ThreadSummary,
  ToolCall,
  Usage,
} from "@/api/types";

const USAGE: Usage = { input: 0, output: 0, cachedInput: 0, cacheWrite: 0, reasoning: 0 };

const NO_LIMITS = { turns: null, timeMs: null, tokens: null, costUsd: null };

export function agency(id: string, name: string): Agency {
  return { id, name, createdAt: "2026-01-01T00:00:00Z", budget: NO_LIMITS, damaged: false };
}

export function blueprint(name: string, more: Partial<Blueprint> = {}): Blueprint {
  return {
    name,
    description: `Is a ${name}.`,
    prompt: `You are a ${name}.`,
    tags: ["default"],
    tools: [],
    middleware: [],
    model: null,
    requires: [],
    params: {
      toolChoice: "auto",
      temperature: null,
      maxTokens: null,
      stop: [],
      reasoning: null,
      responseFormat: null,
    },
    outputSchema: null,
    config: {},
    status: "active",
    limits: { ...NO_LIMITS, turns: 100 },
    mode: "tools",
    isolation: "shared",
    unattended: false,
    source: "static",
    warnings: [],
    unattendedTools: [],
    createdAt: null,
    updatedAt: null,
    ...more,
  };
}

export function threadSummary(id: string, more: Partial<ThreadSummary> = {}): ThreadSummary {
  return {
    id,
    agentType: "clerk",
    agencyId: "a",
    title: null,
    createdAt: "2026-01-01T00:00:00Z",
    updatedAt: "2026-01-01T00:00:00Z",
    request: { userAgent: null, ip: null, referrer: null, origin: null, cf: null },
    parent: null,
    scheduleId: null,
    forkedFrom: null,
    status: "completed",
    reason: null,
    seq: 1,
    tokensUsed: USAGE,
    costUsd: 0,
    children: { tokensUsed: USAGE, costUsd: 0 },
    ...more,
  };
}

export function parent(threadId: string): NonNullable<ThreadSummary["parent"]> {
  return { threadId, token: "", root: null, depth: 1, returns: [] };
}

export function message(role: Message["role"], content: string, more: Partial<Message> = {}): Message {
  return {
    id: `m-${content}`,
    role,
    content,
    images: [],
    toolCalls: [],
    toolCallId: null,
    origin: null,
    transient: false,
    meta: null,
    ...more,
  };
}

export function toolCall(id: string, name: string, args: ToolCall["args"] = {}): ToolCall {
  return { id, name, args, meta: null };
}

export function pendingCall(id: string, more: Partial<PendingCall> = {}): PendingCall {
  return {
    ...toolCall(id, "refund"),
    risk: "high",
    note: "",
    kind: "approval",
    approvalId: `thr:${id}`,
    since: null,
    expiresAt: null,
    onTimeout: "deny",
    ...more,
  };
}

export function threadEvent(
  seq: number,
  type: ThreadEvent["type"],
  data: ThreadEvent["data"] = {},
  second = 0,
): ThreadEvent {
  return { threadId: "t", seq, ts: new Date(second * 1000).toISOString(), type, data };
}

export function approval(threadId: string, more: Partial<Approval> = {}): Approval {
  return {
    threadId,
    agentType: "worker",
    title: null,
    request: "",
    runId: `${threadId}.1`,
    since: "2026-01-01T00:00:00Z",
    kind: "calls",
    parentId: null,
    code: null,
    calls: [pendingCall("c1")],
    ...more,
  };
}
