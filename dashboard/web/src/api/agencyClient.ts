// The client: agencies and threads of a gateway as objects, one method a route. The page uses it, and so may any other
// program in TypeScript: `client/` makes a package of it.
//
//   const client = new AgencyClient({ url: "http://127.0.0.1:8000", secret: process.env.AGENCY_SECRET });
//   const thread = await client.agency("demo").create("manager", "Should we deliver on the same day?");
//   for await (const event of thread.events()) console.log(event.type);

import { followAgency, followThread } from "./events";
import { newKey } from "./once";
import { Problem } from "./problem";
import { ABSENT, type ShelfContent, shelfAddress, versionHeaders } from "./shelfEntries";
import { path, Transport, type TransportOptions } from "./transport";
import type {
  Agency,
  AgencyEvent,
  AgencyLayers,
  AgencyUsage,
  AnswerOf,
  Approval,
  Blueprint,
  BlueprintChange,
  BodyOf,
  CallRecord,
  Decision,
  DecisionsTaken,
  Extension,
  FileEntry,
  Health,
  Incoming,
  InstallationStatus,
  JsonObject,
  Key,
  KeyRole,
  KeyWithSecret,
  Limits,
  ModelCall,
  ModelCallSummary,
  NewSchedule,
  NewThread,
  Policy,
  ProviderInfo,
  ResolvedBlueprint,
  RunCeiling,
  RunEnvelope,
  RunStatus,
  Schedule,
  ScheduleChange,
  ScheduleRun,
  SearchPage,
  ShelfEntry,
  ShelfInfo,
  StateAndRun,
  Statistics,
  ThreadEvent,
  ThreadListing,
  ThreadMetadata,
  ThreadOperation,
  ThreadSummary,
  Trace,
} from "./types";

/** Of lists that the gateway gives in pages and that are short: so many at once. */
const MOST = 500;
const SHELF_PAGE = 1_000;

const ENDS = new Set(["agent.completed", "agent.error", "run.canceled", "run.paused"]);
const AT_WORK = new Set<RunStatus>(["registered", "running"]);

export interface ThreadQuery {
  after?: number | null;
  limit?: number;
  parent?: string;
  status?: RunStatus;
  order?: "newest" | "oldest";
}

export interface SearchQuery {
  /** Words that must all occur in a title or a message. */
  q: string;
  after?: number;
  limit?: number;
}

export interface StatisticsQuery {
  by?: "hour" | "day";
  /** Where to begin; without it, 24 hours or 30 days ago. */
  since?: string;
  /** Only this agent. */
  agent?: string;
}

/** Where live events begin, and what ends them. */
export interface Following {
  /** The number of the last event that you have; from the first event on unless given. */
  after?: number;
  signal?: AbortSignal;
}

/** All of a list, page after page: a page may end early, because it has so many bytes. */
async function everyPage<Name extends string, Item>(
  transport: Transport,
  address: string,
  name: Name,
): Promise<Item[]> {
  const found: Item[] = [];
  let after: string | number | null | undefined;
  do {
    const query = after === undefined ? { limit: MOST } : { limit: MOST, after };
    const page: Record<Name, Item[]> & { next?: string | number | null } = await transport.request(address, { query });
    found.push(...page[name]);
    after = page.next ?? null;
  } while (after !== null);
  return found;
}

export class AgencyClient {
  readonly transport: Transport;

  constructor(options: TransportOptions | Transport) {
    this.transport = options instanceof Transport ? options : new Transport(options);
  }

  /** Whether a thread could run now; a `Problem` with status 503 says why not. */
  health(): Promise<Health> {
    return this.transport.request("/healthz");
  }

  /** Nodes, hosts, and which thread is where; only for the installation's owner. */
  status(): Promise<InstallationStatus> {
    return this.transport.request("/status");
  }

  async extensions(): Promise<Extension[]> {
    return (await this.transport.request<{ extensions: Extension[] }>("/extensions")).extensions;
  }

  /** The newest ones. */
  async agencies(): Promise<Agency[]> {
    return (await this.transport.request<{ agencies: Agency[] }>("/agencies", { query: { limit: MOST } })).agencies;
  }

  /** With the key of an earlier request, the agency that it made. */
  createAgency(name: string, idempotencyKey: string = newKey()): Promise<Agency> {
    return this.transport.request("/agencies", { method: "POST", body: { name, idempotencyKey } });
  }

  /** An agency by its id; that there is none shows when it is used. */
  agency(id: string): AgencyHandle {
    return new AgencyHandle(this.transport, id);
  }
}

export class AgencyHandle {
  constructor(
    readonly transport: Transport,
    readonly id: string,
  ) {}

  info(): Promise<Agency> {
    return this.transport.request(path`/agency/${this.id}`);
  }

  rename(name: string): Promise<Agency> {
    return this.transport.request(path`/agency/${this.id}`, { method: "PATCH", body: { name } });
  }

  delete(): Promise<void> {
    return this.transport.request(path`/agency/${this.id}`, { method: "DELETE" });
  }

  usage(): Promise<AgencyUsage> {
    return this.transport.request(path`/agency/${this.id}/usage`);
  }

  setBudget(budget: Limits): Promise<AgencyUsage> {
    return this.transport.request(path`/agency/${this.id}/budget`, { method: "PUT", body: budget });
  }

  /** The most that any run may use. */
  limits(): Promise<RunCeiling> {
    return this.transport.request(path`/agency/${this.id}/limits`);
  }

  setLimits(limits: Limits): Promise<RunCeiling> {
    return this.transport.request(path`/agency/${this.id}/limits`, { method: "PUT", body: limits });
  }

  /** Budget, policy and limits, as the installation's owner and the agency have each set them. */
  layers(): Promise<AgencyLayers> {
    return this.transport.request(path`/agency/${this.id}/layers`);
  }

  policy(): Promise<Policy> {
    return this.transport.request(path`/agency/${this.id}/policy`);
  }

  setPolicy(policy: Policy): Promise<Policy> {
    return this.transport.request(path`/agency/${this.id}/policy`, { method: "PUT", body: policy });
  }

  blueprints(): Promise<Blueprint[]> {
    return everyPage<"blueprints", Blueprint>(this.transport, path`/agency/${this.id}/blueprints`, "blueprints");
  }

  /** Of one that is there, what is not given stays as it was. */
  putBlueprint(blueprint: BlueprintChange): Promise<Blueprint> {
    return this.transport.request(path`/agency/${this.id}/blueprints`, { method: "POST", body: blueprint });
  }

  /** What threads of a blueprint would have; nothing is stored. */
  resolveBlueprint(blueprint: BlueprintChange): Promise<ResolvedBlueprint> {
    return this.transport.request(path`/agency/${this.id}/blueprints/resolve`, { method: "POST", body: blueprint });
  }

  deleteBlueprint(name: string): Promise<void> {
    return this.transport.request(path`/agency/${this.id}/blueprints/${name}`, { method: "DELETE" });
  }

  providers(): Promise<ProviderInfo[]> {
    return everyPage<"providers", ProviderInfo>(this.transport, path`/agency/${this.id}/providers`, "providers");
  }

  putProvider(name: string, entry: JsonObject): Promise<ProviderInfo> {
    return this.transport.request(path`/agency/${this.id}/providers/${name}`, { method: "PUT", body: entry });
  }

  deleteProvider(name: string): Promise<void> {
    return this.transport.request(path`/agency/${this.id}/providers/${name}`, { method: "DELETE" });
  }

  keys(): Promise<Key[]> {
    return everyPage<"keys", Key>(this.transport, path`/agency/${this.id}/keys`, "keys");
  }

  createKey(name: string, role: KeyRole): Promise<KeyWithSecret> {
    return this.transport.request(path`/agency/${this.id}/keys`, { method: "POST", body: { name, role } });
  }

  revokeKey(key: string): Promise<void> {
    return this.transport.request(path`/agency/${this.id}/keys/${key}`, { method: "DELETE" });
  }

  // Threads.

  threads(query: ThreadQuery = {}): Promise<ThreadListing> {
    return this.transport.request(path`/agency/${this.id}/agents`, { query: { ...query } });
  }

  /** Threads in which words were said, the best first. */
  search(query: SearchQuery): Promise<SearchPage> {
    return this.transport.request(path`/agency/${this.id}/search`, { query: { ...query } });
  }

  /** Runs, tokens, cost, working times and failed calls over time. */
  statistics(query: StatisticsQuery = {}): Promise<Statistics> {
    return this.transport.request(path`/agency/${this.id}/statistics`, { query: { ...query } });
  }

  createThread(body: NewThread): Promise<ThreadMetadata> {
    return this.transport.request(path`/agency/${this.id}/agents`, { method: "POST", body });
  }

  /** A new thread for an agent, at work at once if there is a message. */
  async create(agentType: string, message?: string, more: Partial<NewThread> = {}): Promise<ThreadHandle> {
    const messages = message === undefined ? {} : { messages: [{ content: message }] };
    const made = await this.createThread({ idempotencyKey: newKey(), agentType, ...messages, ...more });
    return this.thread(made.id);
  }

  /** A thread by its id; that there is none shows when it is used. */
  thread(id: string): ThreadHandle {
    return new ThreadHandle(this.transport, this.id, id);
  }

  /** The stored events of all threads, and then those to come, through any number of broken connections. `after` is the
   * cursor of the last one that you have; from now on unless given. */
  events(following: Following = {}): AsyncGenerator<AgencyEvent, void> {
    return followAgency(this, following);
  }

  // What waits for a person.

  approvals(after?: number): Promise<{ approvals: Approval[]; next: number | null }> {
    return this.transport.request(path`/agency/${this.id}/approvals`, { query: { limit: 200, after } });
  }

  /** Decide on calls of several threads at once, by their approval ids. */
  decide(decisions: Record<string, Decision>, idempotencyKey?: string): Promise<DecisionsTaken> {
    const body = { decisions, ...(idempotencyKey === undefined ? {} : { idempotencyKey }) };
    return this.transport.request(path`/agency/${this.id}/approvals`, { method: "POST", body });
  }

  // Schedules.

  schedules(): Promise<Schedule[]> {
    return everyPage<"schedules", Schedule>(this.transport, path`/agency/${this.id}/schedules`, "schedules");
  }

  createSchedule(body: NewSchedule): Promise<Schedule> {
    return this.transport.request(path`/agency/${this.id}/schedules`, { method: "POST", body });
  }

  changeSchedule(schedule: string, body: ScheduleChange): Promise<Schedule> {
    return this.transport.request(path`/agency/${this.id}/schedules/${schedule}`, { method: "PATCH", body });
  }

  deleteSchedule(schedule: string): Promise<void> {
    return this.transport.request(path`/agency/${this.id}/schedules/${schedule}`, { method: "DELETE" });
  }

  runSchedule(schedule: string): Promise<ScheduleRun> {
    return this.transport.request(path`/agency/${this.id}/schedules/${schedule}/run`, { method: "POST", body: {} });
  }

  async scheduleRuns(schedule: string): Promise<ScheduleRun[]> {
    const address = path`/agency/${this.id}/schedules/${schedule}/runs`;
    return (await this.transport.request<{ runs: ScheduleRun[] }>(address, { query: { limit: 50 } })).runs;
  }

  // Shelves: bytes by path with a version, which outlive threads.

  async shelves(): Promise<ShelfInfo[]> {
    return (await this.transport.request<{ shelves: ShelfInfo[] }>(path`/agency/${this.id}/shelf`)).shelves;
  }

  /** The first entries whose paths begin so; `next` is null if these are all. */
  entries(shelf: string, prefix = ""): Promise<{ entries: ShelfEntry[]; next: string | null }> {
    return this.transport.request(path`/agency/${this.id}/shelf/${shelf}`, { query: { prefix, limit: SHELF_PAGE } });
  }

  async readEntry(shelf: string, entry: string): Promise<ShelfContent> {
    const answer = await this.transport.send(shelfAddress(this.id, shelf, entry));
    return { blob: await answer.blob(), version: (answer.headers.get("ETag") ?? "").replaceAll('"', "") };
  }

  /** Put an entry under a path, only if it has this version; else a `Problem` that is a conflict. */
  async writeEntry(shelf: string, entry: string, content: Blob, version: string = ABSENT): Promise<ShelfEntry> {
    const headers = { ...versionHeaders(version), "Content-Type": "application/octet-stream" };
    const init = { method: "PUT", body: content, headers };
    return (await (await this.transport.send(shelfAddress(this.id, shelf, entry), init)).json()) as ShelfEntry;
  }

  async deleteEntry(shelf: string, entry: string, version: string): Promise<void> {
    const init = { method: "DELETE", headers: versionHeaders(version) };
    await this.transport.send(shelfAddress(this.id, shelf, entry), init);
  }
}

export class ThreadHandle {
  constructor(
    readonly transport: Transport,
    readonly agency: string,
    readonly id: string,
  ) {}

  #path(name = ""): string {
    return path`/agency/${this.agency}/agent/${this.id}` + name;
  }

  info(): Promise<ThreadSummary> {
    return this.transport.request(this.#path());
  }

  /** Give it another title; null gives it its own title back. */
  rename(title: string | null): Promise<ThreadSummary> {
    return this.transport.request(this.#path(), { method: "PATCH", body: { title } });
  }

  delete(): Promise<void> {
    return this.transport.request(this.#path(), { method: "DELETE" });
  }

  state(): Promise<StateAndRun> {
    return this.transport.request(this.#path("/state"));
  }

  /** The latest run. */
  run(): Promise<RunEnvelope> {
    return this.transport.request(this.#path("/run"));
  }

  /** A call of a tool, whole; `seq` is an event of it, if several have this id. Operators get its `traces`. */
  toolCall(id: string, seq?: number): Promise<CallRecord> {
    return this.transport.request(this.#path(path`/call/${id}`), { query: { seq } });
  }

  /** What failed with a traceback or printed something, told of by events after one. It needs the role `operator`. */
  async traces(after = 0): Promise<Trace[]> {
    return (await this.transport.request<{ traces: Trace[] }>(this.#path("/traces"), { query: { after } })).traces;
  }

  /** The model calls of a run in figures; of the latest unless given. */
  async modelCalls(run?: number): Promise<ModelCallSummary[]> {
    const found = await this.transport.request<{ modelCalls: ModelCallSummary[] }>(this.#path("/model-calls"), {
      query: { run },
    });
    return found.modelCalls;
  }

  /** A model call with what was sent and what came back, by an event of it. It needs the role `operator`. */
  modelCall(seq: number): Promise<ModelCall> {
    return this.transport.request(this.#path(path`/model-call/${String(seq)}`));
  }

  /** A page of stored events after a seq; `next` is null if that is all there is so far. */
  storedEvents(after = 0, limit = 1000): Promise<{ events: ThreadEvent[]; next: number | null }> {
    return this.transport.request(this.#path("/events"), { query: { after, limit } });
  }

  /** All events, and then those to come, through any number of broken connections: stored ones in their order, none twice
   * and none missing; between them the pieces of text that a model is writing, which are stored nowhere. */
  events(following: Following = {}): AsyncGenerator<Incoming, void> {
    return followThread(this, following);
  }

  /** The run, once it has ended or waits for a person. */
  async wait({ signal }: { signal?: AbortSignal } = {}): Promise<RunEnvelope> {
    const { seq } = await this.info();
    let run = await this.run();
    if (!AT_WORK.has(run.status)) return run;
    for await (const event of this.events({ after: seq, ...(signal ? { signal } : {}) })) {
      if (!ENDS.has(event.type)) continue;
      run = await this.run();
      if (!AT_WORK.has(run.status)) return run;
    }
    throw new Problem(0, "The wait was canceled.");
  }

  /** One of the thread's operations, as the document has it: `operate("fork", {…})`. */
  operate<Name extends ThreadOperation>(
    name: Name,
    ...[body]: [BodyOf<Name>] extends [never] ? [] : [body: BodyOf<Name>]
  ): Promise<AnswerOf<Name>> {
    return this.transport.request(this.#path(path`/${name}`), { method: "POST", body: body ?? {} });
  }

  /** Give the thread a message. */
  invoke(message: string | NonNullable<BodyOf<"invoke">>): Promise<AnswerOf<"invoke">> {
    const said = typeof message === "string" ? { messages: [{ content: message }] } : message;
    return this.operate("invoke", { idempotencyKey: newKey(), ...said });
  }

  /** Try the latest run again, which has failed, from where it failed. */
  retry(): Promise<AnswerOf<"retry">> {
    return this.operate("retry", { idempotencyKey: newKey() });
  }

  /** Change what the agent keeps, by the parts of its state: `todos`, `files`. With the `seq` of the latest event that you
   * know, it is refused if anything has happened since. */
  editState(state: JsonObject, seq?: number): Promise<{ ok?: boolean }> {
    return this.transport.request(this.#path("/state"), {
      method: "PATCH",
      body: { state, ...(seq === undefined ? {} : { seq }) },
    });
  }

  /** Approve the calls that wait for a person: all of them, or those with these ids. */
  approve(ids?: readonly string[]): Promise<AnswerOf<"approve">> {
    if (ids === undefined) return this.operate("approve", { approved: true });
    return this.decide(Object.fromEntries(ids.map((id) => [id, { decision: "approve" } satisfies Decision])));
  }

  /** Decide on calls by their ids: approve, edit, deny, respond. */
  decide(decisions: Record<string, Decision>): Promise<AnswerOf<"approve">> {
    return this.operate("approve", { decisions });
  }

  async files(): Promise<FileEntry[]> {
    return (await this.transport.request<{ files: FileEntry[] }>(this.#path("/files"))).files;
  }

  async readFile(file: string): Promise<Blob> {
    return (await this.transport.send(this.#path("/file"), { query: { path: file } })).blob();
  }

  async writeFile(file: string, content: BodyInit): Promise<void> {
    await this.transport.send(this.#path("/file"), { method: "PUT", query: { path: file }, body: content });
  }

  async deleteFile(file: string): Promise<void> {
    await this.transport.send(this.#path("/file"), { method: "DELETE", query: { path: file } });
  }
}
