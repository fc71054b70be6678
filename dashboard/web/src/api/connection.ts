// A socket to the gateway that is opened again whenever it breaks, after longer and longer pauses.
//
// Before each opening, the store that uses the connection loads what it needs (`prepare()`) and says where to begin
// (`address()`, with the number of the last event), so that no event is missed or comes twice. Browsers do not tell why
// a socket failed, but a failure of `prepare()` does: the gateway is away, which passes, or it has refused, which ends
// the connection. It is not asked again sooner than it wants to be.

import { Problem } from "./problem";

const DELAY_FIRST = 300;
const DELAY_MOST = 8_000;
/** A connection that was open for so long is opened again after the shortest delay. */
const STABLE = 5_000;
const GONE = 4404;
const REVOKED = 4401;

/** `connecting` for the first time, `open`, `waiting` to try again, or `ended` by a refusal or by us. */
export type ConnectionStatus = "connecting" | "open" | "waiting" | "ended";

/** As much of a WebSocket as a connection uses. */
export interface Socket {
  readonly readyState: number;
  onopen: (() => void) | null;
  onmessage: ((message: { data: string }) => void) | null;
  onclose: ((closed: { code: number; reason: string }) => void) | null;
  close(): void;
}

export type Open = (address: string) => Promise<Socket>;

interface ConnectionUse {
  address(): string;
  prepare(): Promise<unknown>;
  opened?(): void;
  received(message: unknown): void;
  changed(): void;
  open: Open;
}

const connections = new Set<Connection>();

/** End all pauses now: the network is back, or a person looks at the page again. */
export function retryAll(): void {
  for (const each of connections) each.retry();
}

export class Connection {
  readonly #use: ConnectionUse;
  #socket: Socket | null = null;
  #closed = false;
  #skipPause: () => void = () => {};

  status: ConnectionStatus = "connecting";
  /** What was last in the way. */
  problem: Problem | null = null;

  constructor(use: ConnectionUse) {
    this.#use = use;
    connections.add(this);
    void this.#run();
  }

  close(): void {
    this.#closed = true;
    connections.delete(this);
    this.#hangUp();
    this.#skipPause();
  }

  retry(): void {
    this.#skipPause();
  }

  /** Open it again: something that belongs to the connection failed. */
  restart(problem: Problem | null): void {
    this.problem = problem;
    this.#hangUp();
  }

  /** A socket that is not open yet is closed as soon as it is: browsers complain if it is sooner. */
  #hangUp(): void {
    const socket = this.#socket;
    if (socket === null) return;
    if (socket.readyState === 0) socket.onopen = () => socket.close();
    else socket.close();
  }

  async #run(): Promise<void> {
    let delay = DELAY_FIRST;
    while (!this.#closed) {
      try {
        await this.#use.prepare();
        if (this.#closed) return;
        if ((await this.#listen()) > STABLE) delay = DELAY_FIRST;
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        this.problem = error;
      }
      if (this.#closed) return;
      this.#become(this.problem === null || this.problem.passes ? "waiting" : "ended");
      if (this.status === "ended") return;
      await this.#wait(Math.max(delay * (0.75 + Math.random() / 2), 1_000 * (this.problem?.retryAfter ?? 0)));
      delay = Math.min(2 * delay, DELAY_MOST);
    }
  }

  /** Read until the socket is closed: for how long it was open. */
  async #listen(): Promise<number> {
    const socket = await this.#use.open(this.#use.address());
    this.#socket = socket;
    if (this.#closed) this.#hangUp();
    let since = Number.POSITIVE_INFINITY;
    return new Promise((resolve, reject) => {
      socket.onopen = () => {
        if (this.#closed) return socket.close();
        since = performance.now();
        this.problem = null;
        this.#become("open");
        this.#use.opened?.();
      };
      socket.onmessage = ({ data }) => {
        if (!this.#closed) this.#use.received(JSON.parse(data));
      };
      socket.onclose = ({ code, reason }) => {
        this.#socket = null;
        if (code === GONE) reject(new Problem(404, reason || "It was deleted."));
        else if (code === REVOKED) reject(new Problem(401, reason || "The key was revoked."));
        else resolve(performance.now() - since);
      };
    });
  }

  #become(status: ConnectionStatus): void {
    this.status = status;
    this.#use.changed();
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#skipPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
