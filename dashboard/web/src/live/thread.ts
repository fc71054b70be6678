// One thread as it is now: its events, its state and run, and the text that its model is saying.
//
// Events say that something has changed, the state what it is now: after events it is loaded again. Text streams in
// pieces that are stored nowhere; it is shown until the message that it became is in the state.

import { openSocket, path } from "@/api/client";
import { Connection, type ConnectionStatus, type Open } from "@/api/connection";
import { append, EMPTY, hear, isStored, type Log, lastSeq, prepend, type Speech } from "@/api/log";
import { newKey, Once } from "@/api/once";
import { asProblem, type Problem } from "@/api/problem";
import * as api from "@/api/threads";
import type {
  AgentState,
  ChatMessage,
  Delta,
  Incoming,
  RunEnvelope,
  RunState,
  ThreadEvent,
  ThreadSummary,
  When,
} from "@/api/types";
import { Refresh } from "@/live/refresh";
import { eachFrame, Store } from "@/live/store";

/** So many of the latest events come at once; views that need all of them ask for the earlier ones. */
const FIRST_EVENTS = 400;
const PAGE = 1_000;

/** Events that change nothing in the state. */
const QUIET = /^(middleware\.|checkpoint\.saved|model\.started|run\.tick)/;

/** A message that was accepted and is not in the transcript yet. */
interface Sent {
  readonly key: string;
  readonly text: string;
  readonly when: When;
  /** How often the same was said before. */
  readonly before: number;
}

/** Why the model has to be asked again, and when. */
export interface Trouble {
  readonly code: string;
  readonly message: string;
  readonly retryAt: string | null;
}

export interface ThreadNow {
  readonly connection: ConnectionStatus;
  readonly problem: Problem | null;
  readonly log: Log;
  readonly state: AgentState | null;
  readonly run: RunState | null;
  /** The latest run's; null if there has been none. */
  readonly envelope: RunEnvelope | null;
  /** When state and envelope were loaded. */
  readonly loadedAt: number;
  readonly speech: Speech | null;
  readonly trouble: Trouble | null;
  readonly sent: readonly Sent[];
}

const NOTHING: ThreadNow = {
  connection: "connecting",
  problem: null,
  log: EMPTY,
  state: null,
  run: null,
  envelope: null,
  loadedAt: 0,
  speech: null,
  trouble: null,
  sent: [],
};

/** What a thread asks of the gateway; tests have their own. */
interface ThreadSource {
  summary(): Promise<Pick<ThreadSummary, "seq">>;
  state(): Promise<{ state: AgentState; run: RunState }>;
  run(): Promise<RunEnvelope>;
  events(after: number, limit: number): Promise<{ events: ThreadEvent[]; next: number | null }>;
  open?: Open;
}

export function gatewaySource(agency: string, thread: string): ThreadSource {
  return {
    summary: () => api.getThread(agency, thread),
    state: () => api.getState(agency, thread),
    run: () => api.getRun(agency, thread),
    events: (after, limit) => api.getEvents(agency, thread, after, limit),
  };
}

export class ThreadStore extends Store<ThreadNow> {
  readonly #source: ThreadSource;
  readonly #connection: Connection;
  readonly #refresh = new Refresh(() => this.#load().catch((error) => this.#fail(error)));
  readonly #once = new Once();
  #begun = false;
  #incoming: Incoming[] = [];
  #loads = 0;
  #newest = 0;
  #earlier: Promise<void> | null = null;
  readonly #flushSoon = eachFrame(() => this.#flush());

  constructor(
    readonly agency: string,
    readonly id: string,
    source: ThreadSource = gatewaySource(agency, id),
  ) {
    super(NOTHING);
    this.#source = source;
    this.#connection = new Connection({
      address: () => `${path`/agency/${agency}/agent/${id}/ws`}?after=${lastSeq(this.get().log)}`,
      prepare: () => this.#prepare(),
      received: (message) => this.#receive(message as Incoming),
      changed: () => this.update({ connection: this.#connection.status, problem: this.#connection.problem }),
      open: source.open ?? openSocket,
    });
  }

  close(): void {
    this.#connection.close();
  }

  /** Load state and run again, for when a person has done something here. */
  refresh(): void {
    this.#refresh.soon();
  }

  /** Load the events before the first one here, until there are none. */
  loadAll(): Promise<void> {
    this.#earlier ??= this.#loadEarlier().finally(() => {
      this.#earlier = null;
    });
    return this.#earlier;
  }

  /** Say something: it begins a run, or joins the one in progress. Sent again after a failure, it counts once. */
  async say(message: ChatMessage, files: Record<string, string>, when: When): Promise<void> {
    const text = message.content ?? "";
    const body = this.#once.body({
      messages: [message],
      ...(Object.keys(files).length ? { files } : {}),
      ...(when === "next_step" ? {} : { when }),
    });
    const before = this.#timesSaid(text);
    await api.invoke(this.agency, this.id, body);
    this.#once.done();
    this.update({ sent: [...this.get().sent, { key: newKey(), text, when, before }] });
    this.refresh();
  }

  // Loading.

  async #prepare(): Promise<void> {
    await Promise.all([this.#begun ? null : this.#begin(), this.#load()]);
  }

  /** Decide with which event to begin. */
  async #begin(): Promise<void> {
    const { seq } = await this.#source.summary();
    this.#begun = true;
    this.update({ log: { events: [], before: Math.max(0, seq - FIRST_EVENTS) } });
  }

  async #load(): Promise<void> {
    const number = ++this.#loads;
    const spoken = this.get().speech?.ended ? this.get().speech : null;
    const { state, run } = await this.#source.state();
    const envelope = run.runId ? await this.#source.run() : null;
    if (number < this.#newest) return;
    this.#newest = number;
    const now = this.get();
    const sent = now.sent.filter(({ text, before }) => timesSaid(state, text) <= before);
    this.update({
      state,
      run,
      envelope,
      loadedAt: Date.now(),
      speech: spoken !== null && now.speech === spoken ? null : now.speech,
      sent: sent.length === now.sent.length ? now.sent : sent,
    });
  }

  async #loadEarlier(): Promise<void> {
    for (let { before } = this.get().log; before > 0; before = this.get().log.before) {
      const from = Math.max(0, before - PAGE);
      const { events } = await this.#source.events(from, before - from);
      const log = prepend(this.get().log, events);
      if (log.before === before) return;
      this.update({ log });
    }
  }

  #fail(error: unknown): void {
    this.#connection.restart(asProblem(error));
  }

  #timesSaid(text: string): number {
    const { state } = this.get();
    return state === null ? 0 : timesSaid(state, text);
  }

  // What comes over the connection.

  #receive(message: Incoming): void {
    this.#incoming.push(message);
    this.#flushSoon();
  }

  #flush(): void {
    const incoming = this.#incoming;
    this.#incoming = [];
    const { log, fresh, gap } = append(this.get().log, incoming.filter(isStored));
    let speech = this.get().speech;
    let trouble = this.get().trouble;
    let lost = false;
    const news = new Set<Incoming>(fresh);
    for (const event of incoming) {
      if (!isStored(event)) {
        const heard = hear(speech, (event as Delta).data);
        lost ||= heard === null;
        speech = heard ?? speech;
      } else if (news.has(event)) {
        if (event.type === "model.started") trouble = null;
        if (event.type === "model.completed") {
          trouble = troubleOf(event);
          speech = trouble !== null || speech === null ? null : { ...speech, ended: true };
        }
        if (event.type === "run.canceled" || event.type === "agent.error") speech = null;
      }
    }
    this.update({ log, speech, trouble });
    if (fresh.some((event) => !QUIET.test(event.type))) this.refresh();
    if (gap || lost) this.#connection.restart(null);
  }
}

function timesSaid(state: AgentState, text: string): number {
  return state.messages.filter((each) => each.role === "user" && each.content === text).length;
}

function troubleOf({ data }: ThreadEvent): Trouble | null {
  const error = data.error as { code: string; message: string } | undefined;
  return error ? { ...error, retryAt: (data.retryAt as string | undefined) ?? null } : null;
}
