// A line to the gateway that is opened again whenever it breaks: a socket, after longer and longer pauses.
//
// Whoever uses it says where to begin each time (`address()`, with the number of the last event), so that nothing is
// missed or comes twice, and what to load before (`prepare()`). Its failure also says what a browser does not tell of
// sockets: whether the gateway is away, which passes, or has refused, which ends the line.

import { Problem, socketAddress } from "/assets/api.js";

const PAUSE_FIRST = 300;
const PAUSE_MOST = 8_000;
/** A line that was open for so long is begun again at once. */
const STABLE = 5_000;
const GONE = 4404;
const REVOKED = 4401;

export class Line {
  #use;
  #socket = null;
  #closed = false;
  #skipPause = () => {};

  /** `connecting` for the first time, `open`, `waiting` to try again, or `ended` by a refusal. */
  status = "connecting";
  /** What was last in the way. */
  problem = null;

  constructor({ address, prepare, opened = () => {}, received, changed }) {
    this.#use = { address, prepare, opened, received, changed };
    this.#run();
  }

  close() {
    this.#closed = true;
    this.#hangUp();
    this.#skipPause();
  }

  /** Do not wait any longer. */
  retry() {
    this.#skipPause();
  }

  /** Begin again: something that belongs to the line did not work. */
  restart(problem) {
    if (!(problem instanceof Problem)) throw problem;
    this.problem = problem;
    this.#hangUp();
  }

  /** A socket that is not open yet is closed as soon as it is: browsers complain if it is sooner. */
  #hangUp() {
    const socket = this.#socket;
    if (socket?.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close();
    else socket?.close();
  }

  async #run() {
    let pause = PAUSE_FIRST;
    while (!this.#closed) {
      try {
        await this.#use.prepare();
        const address = await socketAddress(this.#use.address());
        if (this.#closed) return;
        if ((await this.#listen(address)) > STABLE) pause = PAUSE_FIRST;
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        this.problem = error;
      }
      if (this.#closed) return;
      this.#become(this.problem === null || this.problem.passes ? "waiting" : "ended");
      if (this.status === "ended") return;
      await this.#wait(pause * (0.75 + Math.random() / 2));
      pause = Math.min(2 * pause, PAUSE_MOST);
    }
  }

  /** Read until the socket is closed: for how long it was open. */
  #listen(address) {
    let since = Infinity;
    return new Promise((resolve, reject) => {
      const socket = (this.#socket = new WebSocket(address));
      socket.onopen = () => {
        since = performance.now();
        this.problem = null;
        this.#become("open");
        this.#use.opened();
      };
      socket.onmessage = ({ data }) => {
        if (!this.#closed) this.#use.received(JSON.parse(data));
      };
      socket.onclose = ({ code, reason }) => {
        if (code === GONE) reject(new Problem(404, reason || "It was deleted."));
        else if (code === REVOKED) reject(new Problem(401, reason || "The key was revoked."));
        else resolve(performance.now() - since);
      };
    });
  }

  #become(status) {
    this.status = status;
    this.#use.changed();
  }

  #wait(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#skipPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

const SOON = 60;

/** Work that is asked for again and again: soon after, never twice at a time, and at most half of the time. */
export class Refresh {
  #work;
  #wanted = false;
  #busy = false;
  #pause = SOON;

  constructor(work) {
    this.#work = work;
  }

  async soon() {
    this.#wanted = true;
    if (this.#busy) return;
    this.#busy = true;
    try {
      while (this.#wanted) {
        await new Promise((resolve) => setTimeout(resolve, this.#pause));
        this.#wanted = false;
        const began = performance.now();
        await this.#work();
        this.#pause = Math.max(SOON, performance.now() - began);
      }
    } finally {
      this.#busy = false;
    }
  }
}
