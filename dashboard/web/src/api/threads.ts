// Threads: create, list, message, decide, stop. An operation on a thread is one line: see `pause`.

import { path, request, send } from "@/api/client";
import type {
  AnswerOf,
  Approval,
  BodyOf,
  Decision,
  DecisionsTaken,
  FileEntry,
  NewThread,
  RunEnvelope,
  RunStatus,
  StateAndRun,
  ThreadEvent,
  ThreadListing,
  ThreadMetadata,
  ThreadOperation,
  ThreadSummary,
} from "@/api/types";

export const listThreads = (
  agency: string,
  query: {
    after?: number | null;
    limit?: number;
    parent?: string;
    status?: RunStatus;
    order?: "newest" | "oldest";
  } = {},
) => request<ThreadListing>(path`/agency/${agency}/agents`, { query });

export const createThread = (agency: string, body: NewThread) =>
  request<ThreadMetadata>(path`/agency/${agency}/agents`, { method: "POST", body });

export const getThread = (agency: string, thread: string) =>
  request<ThreadSummary>(path`/agency/${agency}/agent/${thread}`);

export const deleteThread = (agency: string, thread: string) =>
  request<void>(path`/agency/${agency}/agent/${thread}`, { method: "DELETE" });

export const getState = (agency: string, thread: string) =>
  request<StateAndRun>(path`/agency/${agency}/agent/${thread}/state`);

export const getRun = (agency: string, thread: string) =>
  request<RunEnvelope>(path`/agency/${agency}/agent/${thread}/run`);

/** A page of stored events after a seq; `next` is null if that is all there is so far. */
export const getEvents = (agency: string, thread: string, after: number, limit = 1000) =>
  request<{ events: ThreadEvent[]; next: number | null }>(path`/agency/${agency}/agent/${thread}/events`, {
    query: { after, limit },
  });

/** A POST request to one of the thread's operations. The document says what each takes and answers. */
const operation =
  <Name extends ThreadOperation>(name: Name) =>
  (agency: string, thread: string, ...[body]: [BodyOf<Name>] extends [never] ? [] : [body: BodyOf<Name>]) =>
    request<AnswerOf<Name>>(path`/agency/${agency}/agent/${thread}/${name}`, { method: "POST", body: body ?? {} });

export const invoke = operation("invoke");
export const cancel = operation("cancel");
export const pause = operation("pause");
export const resume = operation("resume");
export const liftLimits = operation("limits");
export const decide = operation("approve");
export const fork = operation("fork");

// What waits for a person.

export const listApprovals = (agency: string, after?: number) =>
  request<{ approvals: Approval[]; next: number | null }>(path`/agency/${agency}/approvals`, {
    query: { limit: 200, after },
  });

/** Decide on calls of several threads at once, by their approval ids. */
export const decideAll = (agency: string, body: { decisions: Record<string, Decision>; idempotencyKey?: string }) =>
  request<DecisionsTaken>(path`/agency/${agency}/approvals`, { method: "POST", body });

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
