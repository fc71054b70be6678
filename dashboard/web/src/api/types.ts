// Names for what goes over the wire. The types are generated from the gateway's OpenAPI document (schema.gen.ts, made
// by `make tools`), so that they cannot drift: a field that the gateway gains or loses shows up here, or in `tsc`.
// Only what the document does not describe is written by hand: which events are stored, and deltas.

import type { Json, JsonObject } from "./json";
import type { components, paths } from "./schema.gen";

type Schemas = components["schemas"];

export type { Json, JsonObject };

// What an operation takes and answers, by its path and method. Paths are the wire's own and stay as they are; the names
// of bodies are those of the gateway's classes.

type JsonOf<Part> = Part extends { content: { "application/json": infer Body } } ? Body : never;
type PostAt<Path extends keyof paths> = NonNullable<paths[Path]["post"]>;
type BodyAt<Path extends keyof paths> = JsonOf<NonNullable<PostAt<Path>["requestBody"]>>;
type AnswerAt<Path extends keyof paths> = JsonOf<
  PostAt<Path>["responses"][keyof PostAt<Path>["responses"] & (200 | 201 | 202)]
>;

type ThreadPath<Name extends string> = `/agency/{agency_id}/agent/{thread_id}/${Name}`;

/** The POST operations on a thread: `invoke`, `pause`, … */
export type ThreadOperation = {
  [Path in keyof paths]: Path extends ThreadPath<infer Name> ? ([PostAt<Path>] extends [never] ? never : Name) : never;
}[keyof paths];

/** The body that an operation takes; `never` if it takes none. */
export type BodyOf<Name extends ThreadOperation> = BodyAt<Extract<keyof paths, ThreadPath<Name>>>;

/** What an operation answers if it succeeds. */
export type AnswerOf<Name extends ThreadOperation> = AnswerAt<Extract<keyof paths, ThreadPath<Name>>>;

// Runs and what they use.

export type RunStatus = AnswerOf<"invoke">["status"];
export type PauseReason = NonNullable<Schemas["ThreadSummary"]["reason"]>;
export type Usage = Schemas["Usage"];
export type Limits = Schemas["Limits-Input"];

// Agencies.

export type Agency = Schemas["AgencyInfo"];
export type AgencyUsage = Schemas["AgencyUsage"];
/** Who has set something: the installation's owner, or an admin of the agency. */
export type Layer = AgencyLayers["yours"];
export type AgencyLayers = Schemas["AgencyLayers"];
/** The most that any run of an agency may use. */
export type RunCeiling = Schemas["RunCeiling-Output"];
export type Key = Schemas["KeyInfo"];
export type KeyWithSecret = AnswerAt<"/agency/{agency_id}/keys">;
export type KeyRole = Key["role"];
export type Policy = Schemas["Policy-Output"];
export type PolicyRule = Schemas["Rule-Output"];
export type Blueprint = Schemas["BlueprintInfo"];
export type BlueprintChange = BodyAt<"/agency/{agency_id}/blueprints">;

export type Extension = Schemas["ExtensionInfo"];
export type ExtensionPanel = Schemas["ExtensionPanel"];
export type ExtensionAction = Schemas["ExtensionAction"];
export type ExtensionRoute = Schemas["ExtensionRoute"];

export type ResolvedBlueprint = Schemas["ResolvedBlueprint"];
export type ProviderInfo = Schemas["ProviderInfo"];
export type ProviderEntry = NonNullable<ProviderInfo["entry"]>;

// All threads together.

export type SearchPage = Schemas["SearchPage"];
export type SearchHit = Schemas["SearchHit"];
export type Statistics = Schemas["Statistics"];
export type RunFigures = Schemas["RunFigures"];

// Threads.

export type ThreadMetadata = Schemas["ThreadMetadata"];
export type ThreadSummary = Schemas["ThreadSummary"];
export type ThreadListing = Schemas["ThreadPage"];
export type NewThread = BodyAt<"/agency/{agency_id}/agents">;
export type ChatMessage = Schemas["ChatMessage"];
/** When a message that is sent during a run is read. */
export type When = NonNullable<NonNullable<BodyOf<"invoke">>["when"]>;

export type Image = Schemas["Image-Output"];
export type ImageToSend = Schemas["Image-Input"];
export type ToolCall = Schemas["ToolCall-Output"];
export type Message = Schemas["Message"];
export type Subagent = Schemas["ChildLink"];
export type Todo = Schemas["Todo"];
export type AgentState = Schemas["AgentState"];
export type StateAndRun = Schemas["StateAndRun"];
export type RunState = Schemas["RunState"];
export type RunEnvelope = Schemas["RunEnvelope"];
export type FileEntry = Schemas["FileInfo"];
export type CallRecord = Schemas["CallRecord"];
export type Trace = Schemas["TraceRecord"];
export type ModelCall = Schemas["ModelCallRecord"];
export type ModelCallSummary = Schemas["ModelCallSummary"];
export type ToolSpec = Schemas["ToolSpec"];

// Approvals.

export type PendingCall = Schemas["PendingToolCall"];
export type Approval = Schemas["Approval"];
export type Decision = BodyAt<"/agency/{agency_id}/approvals">["decisions"][string];
export type DecisionsTaken = AnswerAt<"/agency/{agency_id}/approvals">;

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
export type NewSchedule = BodyAt<"/agency/{agency_id}/schedules">;
export type ScheduleChange = Schemas["ScheduleChange"];
export type ScheduleRun = Schemas["ScheduleRun"];

// Shelves.

export type ShelfInfo = Schemas["ShelfInfo"];
export type ShelfEntry = Schemas["ShelfEntry"];

// The installation.

export type InstallationStatus = Schemas["Status"];
export type RayInUse = Schemas["RayInUse"];
export type Health = Schemas["Health"];
