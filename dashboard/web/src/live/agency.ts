// One agency as it is now: its threads and what each is doing, its blueprints, and what in it waits for a person.
//
// The list says where each thread stands, up to an event's number; the agency's feed says what has happened since.

import { listBlueprints } from "@/api/agencies";
import { openSocket, path } from "@/api/client";
import { Connection, type ConnectionStatus, type Open } from "@/api/connection";
import { asProblem, type Problem } from "@/api/problem";
import * as api from "@/api/threads";
import type { AgencyEvent, Approval, Blueprint, PauseReason, ThreadListing, ThreadSummary } from "@/api/types";
import { Refresh } from "@/live/refresh";
import { eachFrame, Store } from "@/live/store";

/** The newest come first and fast, all others after them. */
const FIRST = 200;
const PAGE = 1_000;
/** A thread that is deleted makes no event, so the newest are loaded again from time to time. */
const AGAIN_MS = 20_000;
const LIST_SOON_MS = 250;
/** Statuses in a long list need not follow every frame. */
const FLUSH_MS = 80;

/** What an event says about its thread's run. */
const STATUSES: Partial<Record<string, ThreadSummary["status"]>> = {
  "run.started": "running",
  "run.resumed": "running",
  "run.paused": "paused",
  "run.canceled": "canceled",
  "agent.completed": "completed",
  "agent.error": "error",
};

export interface AgencyNow {
  readonly connection: ConnectionStatus;
  readonly problem: Problem | null;
  readonly threads: ReadonlyMap<string, ThreadSummary>;
  /** Whether the newest threads are here, and whether all are. */
  readonly loaded: boolean;
  readonly complete: boolean;
  readonly blueprints: readonly Blueprint[];
  readonly approvals: readonly Approval[];
}

const NOTHING: AgencyNow = {
  connection: "connecting",
  problem: null,
  threads: new Map(),
  loaded: false,
  complete: false,
  blueprints: [],
  approvals: [],
};

/** What an agency asks of the gateway; tests have their own. */
interface AgencySource {
  threads(after: number | null, limit: number): Promise<ThreadListing>;
  approvals(): Promise<Approval[]>;
  blueprints(): Promise<Blueprint[]>;
  open?: Open;
}

export function gatewaySource(agency: string): AgencySource {
  return {
    threads: (after, limit) => api.listThreads(agency, { after, limit, order: "newest" }),
    approvals: async () => (await api.listApprovals(agency)).approvals,
    blueprints: () => listBlueprints(agency),
  };
}

export class AgencyStore extends Store<AgencyNow> {
  readonly #source: AgencySource;
  readonly #connection: Connection;
  readonly #list = new Refresh(() => this.#try(() => this.#loadNewest()), LIST_SOON_MS);
  readonly #ask = new Refresh(() => this.#try(() => this.#loadApprovals()));
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #flushSoon = eachFrame(() => this.#flush(), FLUSH_MS);
  #incoming: AgencyEvent[] = [];
  /** Of the last event that has come. */
  #cursor: number | "now" = "now";
  #rest: Promise<void> | null = null;

  constructor(
    readonly id: string,
    source: AgencySource = gatewaySource(id),
  ) {
    super(NOTHING);
    this.#source = source;
    this.#connection = new Connection({
      address: () => `${path`/agency/${id}/ws`}?after=${this.#cursor}`,
      prepare: () => Promise.all([this.#loadBlueprints(), this.#loadNewest(), this.#loadApprovals()]),
      opened: () => this.reload(), // for what has happened between the list and the opening
      received: (event) => this.#receive(event as AgencyEvent),
      changed: () => this.update({ connection: this.#connection.status, problem: this.#connection.problem }),
      open: source.open ?? openSocket,
    });
    this.#timer = setInterval(() => this.get().connection === "open" && !isHidden() && this.reload(), AGAIN_MS);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#connection.close();
  }

  /** Load what may have changed without an event. */
  reload(): void {
    this.#list.soon();
    this.#ask.soon();
  }

  reloadBlueprints(): Promise<void> {
    return this.#try(() => this.#loadBlueprints());
  }

  /** For when a person has decided here. */
  reloadApprovals(): void {
    this.#ask.soon();
  }

  /** A thread as the gateway says that it is now. */
  put(thread: ThreadSummary): void {
    this.update({ threads: new Map(this.get().threads).set(thread.id, thread) });
  }

  /** A thread and those below it were deleted. */
  forget(id: string): void {
    const threads = new Map(this.get().threads);
    const gone = [id];
    for (const each of gone) {
      threads.delete(each);
      for (const thread of threads.values()) if (thread.parent?.threadId === each) gone.push(thread.id);
    }
    this.update({ threads });
  }

  // Loading.

  async #loadBlueprints(): Promise<void> {
    this.update({ blueprints: await this.#source.blueprints() });
  }

  async #loadApprovals(): Promise<void> {
    this.update({ approvals: await this.#source.approvals() });
  }

  async #loadNewest(): Promise<void> {
    const page = await this.#source.threads(null, FIRST);
    const known = this.get().threads;
    const threads = new Map<string, ThreadSummary>();
    for (const each of page.agents) threads.set(each.id, newer(known.get(each.id), each));
    if (page.next !== null) {
      const oldest = page.agents.at(-1)?.createdAt ?? "";
      for (const each of known.values()) if (each.createdAt < oldest) threads.set(each.id, each);
    }
    const complete = page.next === null || this.get().complete;
    this.update({ threads, loaded: true, complete });
    if (!complete) this.#rest ??= this.#try(() => this.#loadRest(page.next)).finally(() => (this.#rest = null));
  }

  async #loadRest(begin: number | null): Promise<void> {
    for (let after = begin; after !== null; ) {
      const page: ThreadListing = await this.#source.threads(after, PAGE);
      const threads = new Map(this.get().threads);
      for (const each of page.agents) threads.set(each.id, newer(threads.get(each.id), each));
      after = page.next;
      this.update({ threads, complete: after === null });
    }
  }

  async #try(load: () => Promise<void>): Promise<void> {
    try {
      await load();
    } catch (error) {
      this.#connection.restart(asProblem(error));
    }
  }

  // What comes over the connection.

  #receive(event: AgencyEvent): void {
    this.#cursor = event.cursor;
    this.#incoming.push(event);
    this.#flushSoon();
  }

  #flush(): void {
    const incoming = this.#incoming;
    this.#incoming = [];
    const threads = new Map(this.get().threads);
    for (const event of incoming) {
      const known = threads.get(event.threadId);
      if (known === undefined) this.#list.soon();
      else threads.set(known.id, advanced(known, event));
      if (event.type in STATUSES || event.type.startsWith("hitl.")) this.#ask.soon();
      if (isEnd(STATUSES[event.type])) this.#list.soon(); // what it has cost, with its children
      if (known?.title === null && event.type === "run.started") this.#list.soon(); // what it is about
    }
    this.update({ threads });
  }
}

function isEnd(status: ThreadSummary["status"] | undefined): boolean {
  return status === "completed" || status === "canceled" || status === "error";
}

/** The list may be older than what events have said already. */
function newer(known: ThreadSummary | undefined, listed: ThreadSummary): ThreadSummary {
  if (known === undefined || listed.seq >= known.seq) return listed;
  const { status, reason, seq, updatedAt } = known;
  return { ...listed, status, reason, seq, updatedAt };
}

/** A thread after an event. */
export function advanced(known: ThreadSummary, event: AgencyEvent): ThreadSummary {
  if (event.seq <= known.seq) return known;
  const status = STATUSES[event.type] ?? known.status;
  const reason = status === "paused" ? ((event.data.reason as PauseReason | undefined) ?? known.reason) : null;
  return { ...spent(known, event), seq: event.seq, status, reason, updatedAt: event.ts };
}

const PAID = new Set<string>(["model.completed", "model.asked"]);

/** Money and tokens as they are spent, before the list has them. */
function spent(known: ThreadSummary, event: AgencyEvent): ThreadSummary {
  const { usage, costUsd } = event.data as { usage?: { inputTokens: number; outputTokens: number }; costUsd?: number };
  if (!PAID.has(event.type) || usage === undefined) return known;
  const { tokensUsed } = known;
  return {
    ...known,
    costUsd: known.costUsd === null || typeof costUsd !== "number" ? known.costUsd : known.costUsd + costUsd,
    tokensUsed: {
      ...tokensUsed,
      input: tokensUsed.input + usage.inputTokens,
      output: tokensUsed.output + usage.outputTokens,
    },
  };
}

function isHidden(): boolean {
  return typeof document !== "undefined" && document.hidden;
}
