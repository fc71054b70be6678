// Names for what goes over the wire. The types are generated from the gateway's OpenAPI document (schema.gen.ts, made
// by `make setup`), so that they cannot drift: a field that the gateway gains or loses shows up here, or in `tsc`.
// Only what the document does not describe is written by hand: which events are stored, and deltas.

import type { Json, JsonObject } from "@/api/json";
import type { components, paths } from "@/api/schema.gen";

type Schemas = components["schemas"];

export type { Json, JsonObject };

export type RunStatus = Schemas["Accepted"]["status"];
export type PauseReason = NonNullable<Schemas["RunState"]["reason"]>;
export type Usage = Schemas["Usage"];
export type Limits = Schemas["Limits-Input"];

// Agencies.

export type Agency = Schemas["AgencyInfo"];
export type AgencyUsage = Schemas["AgencyUsage"];
export type Key = Schemas["KeyInfo"];
export type KeyWithSecret = Schemas["NewKey"];
export type KeyRole = Key["role"];
export type Policy = Schemas["Policy-Output"];
export type PolicyRule = Schemas["Rule-Output"];
export type Blueprint = Schemas["BlueprintInfo"];
export type BlueprintChange = Schemas["BlueprintChange"];

// Threads.

export type ThreadMetadata = Schemas["ThreadMetadata"];
export type ThreadSummary = Schemas["ThreadSummary"];
export type ThreadListing = Schemas["ThreadPage"];
export type NewThread = Schemas["NewThread"];
export type ChatMessage = Schemas["ChatMessage"];
/** When a message that is sent during a run is read. */
export type When = NonNullable<Schemas["Invocation"]["when"]>;

export type Image = Schemas["Image-Output"];
export type ImageToSend = Schemas["Image-Input"];
export type ToolCall = Schemas["ToolCall-Output"];
export type Message = Schemas["Message"];
export type Subagent = Schemas["ChildLink"];
export type AgentState = Schemas["AgentState"];
export type StateAndRun = Schemas["StateAndRun"];
export type RunState = Schemas["RunState"];
export type RunEnvelope = Schemas["RunEnvelope"];
export type FileEntry = Schemas["FileInfo"];

// Approvals.

export type PendingCall = Schemas["PendingToolCall"];
export type Approval = Schemas["Approval"];
export type Decision = Schemas["Answers"]["decisions"][string];
export type DecisionsTaken = Schemas["Answered"];

// Events.

export type EventType = Schemas["EventType"];

/** A stored event. Its `seq` counts from 1 without a gap; the document's `Event` may be a delta, which has none. */
export type ThreadEvent = Schemas["Event"] & { seq: number };

/** A piece of a model's text while the model writes it: sent once, never stored. The document leaves `data` open. */
export type Delta = Schemas["Event"] & {
  seq: null;
  type: "model.delta";
  data: { runId: string; delta: string; offset: number };
};

export type Incoming = ThreadEvent | Delta;
export type AgencyEvent = Schemas["AgencyEvent"] & { seq: number };

// Schedules.

export type Schedule = Schemas["ScheduleInfo"];
export type NewSchedule = Schemas["NewSchedule"];
export type ScheduleChange = Schemas["ScheduleChange"];
export type ScheduleRun = Schemas["ScheduleRun"];

// The installation.

export type InstallationStatus = Schemas["Status"];
export type HostStatus = Schemas["HostStatus"];
export type Health = Schemas["Health"];

// Operations on a thread: POST requests to an address below the thread's.

type ThreadPath<Name extends string> = `/agency/{agency_id}/agent/{thread_id}/${Name}`;
type PostAt<Path extends keyof paths> = NonNullable<paths[Path]["post"]>;
type JsonOf<Part> = Part extends { content: { "application/json": infer Body } } ? Body : never;

/** The names of all operations in the document: `invoke`, `pause`, … */
export type ThreadOperation = {
  [Path in keyof paths]: Path extends ThreadPath<infer Name> ? ([PostAt<Path>] extends [never] ? never : Name) : never;
}[keyof paths];

type PostOf<Name extends ThreadOperation> = PostAt<Extract<keyof paths, ThreadPath<Name>>>;

/** The body that an operation takes; `never` if it takes none. */
export type BodyOf<Name extends ThreadOperation> = JsonOf<NonNullable<PostOf<Name>["requestBody"]>>;

/** What an operation answers if it succeeds. */
export type AnswerOf<Name extends ThreadOperation> = JsonOf<
  PostOf<Name>["responses"][keyof PostOf<Name>["responses"] & (200 | 201 | 202)]
>;
