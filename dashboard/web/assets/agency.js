// One agency as it is now: its threads and what each is doing, its blueprints, and what in it waits for a person.
//
// The list says where each thread stands, up to an event's number; the agency's feed says what has happened since.

import { agencyPath, get, post } from "/assets/api.js";
import { Line, Refresh } from "/assets/line.js";

const PAGE = 100;
/** A thread that is deleted makes no event, so the list is loaded again from time to time. */
const AGAIN_MS = 20_000;

/** What an event says about its thread's run. */
const STATUSES = {
  "run.started": "running",
  "run.resumed": "running",
  "run.paused": "paused",
  "run.canceled": "canceled",
  "agent.completed": "completed",
  "agent.error": "error",
};

export class Agency {
  #changed;
  #list = new Refresh(() => this.#try(() => this.#loadThreads()));
  #ask = new Refresh(() => this.#try(() => this.#loadApprovals()));
  #early = null;
  #timer;
  /** Of the last event that has come. */
  #cursor = "now";

  threads = new Map();
  /** Where the threads that are not loaded begin; null if there are none. */
  older = null;
  loaded = false;
  blueprints = [];
  approvals = [];

  constructor(id, changed) {
    this.id = id;
    this.#changed = changed;
    this.line = new Line({
      address: () => agencyPath(id, `/ws?after=${this.#cursor}`),
      prepare: () => Promise.all([this.#loadBlueprints(), this.#loadThreads(), this.#loadApprovals()]),
      opened: () => {
        this.#early = []; // for what has happened before it was open, the list is loaded once more
        this.#reload();
      },
      received: (event) => this.#take(event),
      changed,
    });
    this.#timer = setInterval(() => this.line.status === "open" && !document.hidden && this.#reload(), AGAIN_MS);
  }

  close() {
    clearInterval(this.#timer);
    this.line.close();
  }

  /** Threads without a parent here, newest first, each with its children as `{ thread, children }`. */
  tree() {
    const nodes = new Map([...this.threads.values()].map((thread) => [thread.id, { thread, children: [] }]));
    const roots = [];
    for (const node of nodes.values()) {
      const parent = nodes.get(node.thread.parent?.threadId);
      (parent ? parent.children : roots).push(node);
    }
    const age = ({ thread }) => `${thread.createdAt} ${thread.id}`;
    const byAge = (a, b) => age(a).localeCompare(age(b));
    for (const node of nodes.values()) node.children.sort(byAge);
    return roots.sort(byAge).reverse();
  }

  /** The name of a thread's agent, as far as it is known. */
  nameOf(id) {
    return this.threads.get(id)?.agentType ?? "parent";
  }

  /** Whether a thread is below another one. */
  descends(id, from) {
    for (let at = this.threads.get(id); at?.parent; at = this.threads.get(at.parent.threadId)) {
      if (at.parent.threadId === from) return true;
    }
    return false;
  }

  /** Start a thread: its id. */
  async create(agentType, text, once) {
    const messages = text ? [{ role: "user", content: text }] : [];
    const made = await post(agencyPath(this.id, "/agents"), once.body({ agentType, messages }));
    this.#list.soon();
    return made.id;
  }

  async loadOlder() {
    const page = await this.#page(this.older);
    for (const thread of page.agents) this.threads.set(thread.id, thread);
    this.older = page.next;
    this.#changed();
  }

  /** Somebody has answered. */
  answered() {
    this.#ask.soon();
  }

  #reload() {
    this.#list.soon();
    this.#ask.soon();
  }

  #page(after) {
    return get(agencyPath(this.id, `/agents?order=newest&limit=${PAGE}${after === null ? "" : `&after=${after}`}`));
  }

  async #loadBlueprints() {
    const { blueprints } = await get(agencyPath(this.id, "/blueprints"));
    this.blueprints = blueprints.filter((each) => each.status === "active");
    this.#changed();
  }

  async #loadThreads() {
    const page = await this.#page(null);
    const oldest = page.agents.at(-1)?.createdAt ?? "";
    const beyond = page.next === null ? [] : [...this.threads.values()].filter((each) => each.createdAt < oldest);
    if (!beyond.length) this.older = page.next;
    this.threads = new Map([...page.agents, ...beyond].map((thread) => [thread.id, thread]));
    this.loaded = true;
    const early = this.#early ?? [];
    this.#early = null;
    early.forEach((event) => this.#note(event));
    this.#changed();
  }

  async #loadApprovals() {
    this.approvals = (await get(agencyPath(this.id, "/approvals"))).approvals;
    this.#changed();
  }

  async #try(load) {
    try {
      await load();
    } catch (problem) {
      this.line.restart(problem);
    }
  }

  #take(event) {
    this.#cursor = event.cursor;
    if (this.#early) this.#early.push(event);
    else if (this.threads.has(event.threadId)) this.#note(event);
    else this.#list.soon();
    if (event.type in STATUSES || event.type.startsWith("hitl.")) this.#ask.soon();
    this.#changed();
  }

  #note(event) {
    const known = this.threads.get(event.threadId);
    if (!known || event.seq <= known.seq) return;
    const status = STATUSES[event.type] ?? known.status;
    const reason = status === "paused" ? (event.data.reason ?? known.reason) : null;
    this.threads.set(known.id, { ...known, seq: event.seq, status, reason, updatedAt: event.ts });
  }
}
