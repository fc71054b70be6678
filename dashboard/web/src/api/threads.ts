// Threads: create, list, message, decide, stop. An operation on a thread is one line: see `pause`.

import type { SearchQuery, ThreadQuery } from "@/api/agencyClient";
import { client } from "@/api/client";
import { Problem } from "@/api/problem";
import type { AgentState, AnswerOf, BodyOf, Decision, JsonObject, NewThread, ThreadOperation } from "@/api/types";

const at = (agency: string, thread: string) => client.agency(agency).thread(thread);

export const listThreads = (agency: string, query: ThreadQuery = {}) => client.agency(agency).threads(query);
export const createThread = (agency: string, body: NewThread) => client.agency(agency).createThread(body);
export const getThread = (agency: string, thread: string) => at(agency, thread).info();
/** Null gives it its own title back. */
export const renameThread = (agency: string, thread: string, title: string | null) => at(agency, thread).rename(title);
export const searchThreads = (agency: string, query: SearchQuery) => client.agency(agency).search(query);
export const deleteThread = (agency: string, thread: string) => at(agency, thread).delete();
export const getState = (agency: string, thread: string) => at(agency, thread).state();
export const getRun = (agency: string, thread: string) => at(agency, thread).run();

export const getToolCall = (agency: string, thread: string, call: string, seq?: number) =>
  at(agency, thread).toolCall(call, seq);
export const getTraces = (agency: string, thread: string, after: number) => at(agency, thread).traces(after);
export const getModelCall = (agency: string, thread: string, seq: number) => at(agency, thread).modelCall(seq);

/** A page of stored events after a seq; `next` is null if that is all there is so far. */
export const getEvents = (agency: string, thread: string, after: number, limit = 1000) =>
  at(agency, thread).storedEvents(after, limit);

/** A POST request to one of the thread's operations. The document says what each takes and answers. */
const operation =
  <Name extends ThreadOperation>(name: Name) =>
  (
    agency: string,
    thread: string,
    ...body: [BodyOf<Name>] extends [never] ? [] : [body: BodyOf<Name>]
  ): Promise<AnswerOf<Name>> =>
    at(agency, thread).operate(name, ...body);

export const invoke = operation("invoke");
export const cancel = operation("cancel");
export const pause = operation("pause");
export const resume = operation("resume");
export const retry = operation("retry");
export const liftLimits = operation("limits");
export const decide = operation("approve");
export const fork = operation("fork");

/** Change what the agent keeps, if `part` of its state is still what the person began with. */
export async function editState(
  agency: string,
  thread: string,
  change: JsonObject,
  part: (state: AgentState) => unknown,
  begun: unknown,
): Promise<void> {
  const { seq } = await getThread(agency, thread); // so that nothing comes between the look and the change
  const { state } = await getState(agency, thread);
  if (JSON.stringify(part(state)) !== JSON.stringify(begun)) {
    throw new Problem(409, "It has changed since you began. Take what is there, and change that.");
  }
  await at(agency, thread).editState(change, seq);
}

// What waits for a person.

export const listApprovals = (agency: string, after?: number) => client.agency(agency).approvals(after);

/** Decide on calls of several threads at once, by their approval ids. */
export const decideAll = (agency: string, body: { decisions: Record<string, Decision>; idempotencyKey?: string }) =>
  client.agency(agency).decide(body.decisions, body.idempotencyKey);

// Files.

export const listFiles = (agency: string, thread: string) => at(agency, thread).files();
export const readFile = (agency: string, thread: string, file: string) => at(agency, thread).readFile(file);
export const writeFile = (agency: string, thread: string, file: string, content: BodyInit) =>
  at(agency, thread).writeFile(file, content);
export const deleteFile = (agency: string, thread: string, file: string) => at(agency, thread).deleteFile(file);
