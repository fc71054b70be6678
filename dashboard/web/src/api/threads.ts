// Threads: making them, talking to them, looking at them, stopping them.

import { path, request, send } from "@/api/client";
import type {
  AgentState,
  Approval,
  Decision,
  FileEntry,
  Image,
  Limits,
  RunEnvelope,
  RunState,
  RunStatus,
  ThreadEvent,
  ThreadMetadata,
  ThreadSummary,
  When,
} from "@/api/types";

export interface ChatMessage {
  role?: "user" | "system";
  content?: string;
  images?: Image[];
}

export interface ThreadPage {
  agents: ThreadSummary[];
  next: number | null;
}

export const listThreads = (
  agency: string,
  query: {
    after?: number | null;
    limit?: number;
    parent?: string;
    status?: RunStatus;
    order?: "newest" | "oldest";
  } = {},
) => request<ThreadPage>(path`/agency/${agency}/agents`, { query });

export interface NewThread {
  agentType: string;
  messages?: ChatMessage[];
  files?: Record<string, string>;
  limits?: Limits;
  idempotencyKey?: string;
}

export const createThread = (agency: string, body: NewThread) =>
  request<ThreadMetadata>(path`/agency/${agency}/agents`, { method: "POST", body });

export const getThread = (agency: string, thread: string) =>
  request<ThreadSummary>(path`/agency/${agency}/agent/${thread}`);

export const deleteThread = (agency: string, thread: string) =>
  request<void>(path`/agency/${agency}/agent/${thread}`, { method: "DELETE" });

export const getState = (agency: string, thread: string) =>
  request<{ state: AgentState; run: RunState }>(path`/agency/${agency}/agent/${thread}/state`);

export const getRun = (agency: string, thread: string) =>
  request<RunEnvelope>(path`/agency/${agency}/agent/${thread}/run`);

/** A page of stored events after a seq; `next` is null if that is all there is so far. */
export const getEvents = (agency: string, thread: string, after: number, limit = 1000) =>
  request<{ events: ThreadEvent[]; next: number | null }>(path`/agency/${agency}/agent/${thread}/events`, {
    query: { after, limit },
  });

export interface Invocation {
  messages: ChatMessage[];
  files?: Record<string, string>;
  when?: When;
  idempotencyKey?: string;
}

const act = <T>(agency: string, thread: string, action: string, body: object = {}) =>
  request<T>(path`/agency/${agency}/agent/${thread}/${action}`, { method: "POST", body });

export const invoke = (agency: string, thread: string, body: Invocation) =>
  act<{ runId: string; status: RunStatus }>(agency, thread, "invoke", body);

export const cancel = (agency: string, thread: string) => act<{ ok: true }>(agency, thread, "cancel");
export const pause = (agency: string, thread: string) => act<{ ok: true }>(agency, thread, "pause");
export const resume = (agency: string, thread: string) => act<{ ok: true }>(agency, thread, "resume");

export const liftLimits = (agency: string, thread: string, limits: Limits) =>
  act<{ ok: true }>(agency, thread, "limits", limits);

export const decide = (
  agency: string,
  thread: string,
  body: { decisions: Record<string, Decision>; idempotencyKey?: string },
) => act<{ ok: true }>(agency, thread, "approve", body);

export interface Fork {
  afterSeq?: number;
  beforeMessage?: string;
  messages?: ChatMessage[];
  idempotencyKey?: string;
}

export const fork = (agency: string, thread: string, body: Fork) => act<ThreadMetadata>(agency, thread, "fork", body);

// What waits for a person.

export const listApprovals = (agency: string, after?: number) =>
  request<{ approvals: Approval[]; next: number | null }>(path`/agency/${agency}/approvals`, {
    query: { limit: 200, after },
  });

export interface Answered {
  answered: string[];
  refused: { approvalId: string; code: string; message: string }[];
}

/** Answer calls of several threads at once, by their approval ids. */
export const answerAll = (agency: string, body: { decisions: Record<string, Decision>; idempotencyKey?: string }) =>
  request<Answered>(path`/agency/${agency}/approvals`, { method: "POST", body });

// Files.

export const listFiles = async (agency: string, thread: string): Promise<FileEntry[]> =>
  (await request<{ files: FileEntry[] }>(path`/agency/${agency}/agent/${thread}/files`)).files;

export const readFile = async (agency: string, thread: string, file: string): Promise<Blob> =>
  (await send(path`/agency/${agency}/agent/${thread}/file`, { query: { path: file } })).blob();

export const writeFile = async (agency: string, thread: string, file: string, content: BodyInit): Promise<void> => {
  await send(path`/agency/${agency}/agent/${thread}/file`, { method: "PUT", query: { path: file }, body: content });
};

export const deleteFile = async (agency: string, thread: string, file: string): Promise<void> => {
  await send(path`/agency/${agency}/agent/${thread}/file`, { method: "DELETE", query: { path: file } });
};
