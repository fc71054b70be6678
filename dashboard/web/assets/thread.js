// One thread as it is now: its state and run, its latest events, and the text that its model is saying.
//
// Events say that something has changed, the state what it is now: after events it is loaded again. Text streams in
// pieces that are stored nowhere; it is shown until the message that it became is in the state.

import { agencyPath, get, Once, post, put, threadPath } from "/assets/api.js";
import { Line, Refresh } from "/assets/line.js";

export const EVENTS_SHOWN = 200;

/** Events that change nothing that is shown, but in the list of events. */
const QUIET = /^(middleware\.|checkpoint\.saved|model\.started)/;

export class Thread {
  #changed;
  #refresh = new Refresh(() => this.#try());
  #loads = 0;
  #newest = 0;
  #once = new Once();

  state = null;
  run = null;
  /** The run's envelope; null if there has been none. */
  envelope = null;
  loadedAt = 0;
  /** The latest stored events, oldest first, and the seq of the last; null before the first. */
  events = [];
  last = null;
  /** What the model is saying: `{ text, ended }`. */
  live = null;
  /** Why the model has to be asked again, and when. */
  trouble = null;
  /** Calls of the batch at work, by id: `{ state, text }`. */
  calls = new Map();
  /** Messages that were accepted and are not in the transcript yet: `{ key, text, before }`. */
  sent = [];

  constructor(agency, id, changed) {
    this.agency = agency;
    this.id = id;
    this.#changed = changed;
    this.line = new Line({
      address: () => this.path(`/ws?after=${this.last}`),
      prepare: () => this.#prepare(),
      received: (event) => this.#take(event),
      changed,
    });
  }

  path(rest = "") {
    return threadPath(this.agency, this.id, rest);
  }

  close() {
    this.line.close();
  }

  get status() {
    return this.run?.status ?? "idle";
  }

  /** The calls that wait for a person here. */
  get pending() {
    return this.envelope?.meta.pendingToolCalls ?? [];
  }

  /** Say something: it begins a run, or joins the one in progress. Sent again after a failure, it counts once. */
  async send(text) {
    const body = this.#once.body({ messages: [{ role: "user", content: text }] });
    const before = this.#timesSaid(text);
    await post(this.path("/invoke"), body);
    this.#once.done();
    this.sent.push({ key: body.idempotencyKey, text, before });
    this.#changed();
    this.#refresh.soon();
  }

  async cancel() {
    await post(this.path("/cancel"));
    this.#refresh.soon();
  }

  async liftLimits(limits) {
    await post(this.path("/limits"), limits);
    this.#refresh.soon();
  }

  /** Change one part of what all threads of the agency may use together; null takes that limit away. */
  async changeBudget(change) {
    const { budget } = await get(agencyPath(this.agency, "/usage"));
    await put(agencyPath(this.agency, "/budget"), { ...budget, ...change });
    this.#refresh.soon();
  }

  /** Somebody has answered a call. */
  answered() {
    this.#refresh.soon();
  }

  async #prepare() {
    if (this.last === null) this.last = Math.max(0, (await get(this.path())).seq - EVENTS_SHOWN);
    await this.#load();
  }

  async #try() {
    try {
      await this.#load();
    } catch (problem) {
      this.line.restart(problem);
    }
  }

  async #load() {
    const number = ++this.#loads;
    const spoken = this.live?.ended ? this.live : null;
    const { state, run } = await get(this.path("/state"));
    const envelope = run.runId ? await get(this.path("/run")) : null;
    if (number < this.#newest) return;
    this.#newest = number;
    Object.assign(this, { state, run, envelope, loadedAt: Date.now() });
    if (spoken !== null && this.live === spoken) this.live = null;
    this.sent = this.sent.filter(({ text, before }) => this.#timesSaid(text) <= before);
    this.#changed();
  }

  #timesSaid(text) {
    return this.state?.messages.filter((each) => each.role === "user" && each.content === text).length ?? 0;
  }

  #take(event) {
    if (event.type === "model.delta") this.#hear(event.data);
    else if (event.seq > this.last) this.#note(event);
    this.#changed();
  }

  #hear({ delta, offset }) {
    const before = this.live === null || this.live.ended ? "" : this.live.text;
    this.live = { text: before.slice(0, offset) + delta, ended: false };
  }

  #note(event) {
    this.last = event.seq;
    this.events = [...this.events, event].slice(-EVENTS_SHOWN);
    this.#noteModel(event);
    this.#noteCall(event);
    if (!QUIET.test(event.type)) this.#refresh.soon();
  }

  #noteModel({ type, data }) {
    if (type === "model.started") this.trouble = null;
    if (type !== "model.completed") return;
    this.calls = new Map();
    this.trouble = data.error ? { ...data.error, retryAt: data.retryAt } : null;
    if (data.error) this.live = null;
    else if (this.live) this.live = { ...this.live, ended: true };
  }

  #noteCall({ type, data }) {
    if (type === "tool.started") this.calls.set(data.callId, { state: "running", text: null });
    if (type === "tool.output") this.calls.set(data.callId, { state: "done", text: data.output });
    if (type === "tool.error") this.calls.set(data.callId, { state: "failed", text: data.error });
  }
}
