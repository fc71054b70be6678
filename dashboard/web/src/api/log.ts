// A thread's stored events in memory: always one unbroken piece, from `first` to `last`.

import type { Incoming, ThreadEvent } from "./types";

export interface Log {
  /** In the order of their seq, without a gap. */
  readonly events: readonly ThreadEvent[];
  /** The seq before the first that is here: 0 if nothing is missing. */
  readonly before: number;
}

export const EMPTY: Log = { events: [], before: 0 };

export function lastSeq(log: Log): number {
  return log.events.at(-1)?.seq ?? log.before;
}

export function isStored(event: Incoming): event is ThreadEvent {
  return event.seq !== null;
}

/**
 * The log with what has come. An event that is here already is left out; what comes after a gap is, too, and `gap` says
 * that the connection has to begin again after the last one that is here.
 */
export function append(log: Log, incoming: readonly ThreadEvent[]): { log: Log; fresh: ThreadEvent[]; gap: boolean } {
  const fresh: ThreadEvent[] = [];
  let last = lastSeq(log);
  let gap = false;
  for (const event of incoming) {
    if (event.seq <= last) continue;
    if (event.seq > last + 1) {
      gap = true;
      break;
    }
    fresh.push(event);
    last = event.seq;
  }
  return { log: fresh.length ? { ...log, events: [...log.events, ...fresh] } : log, fresh, gap };
}

/** The log with a page that ends where it begins; a page that does not fit changes nothing. */
export function prepend(log: Log, page: readonly ThreadEvent[]): Log {
  const earlier = page.filter((event) => event.seq <= log.before);
  const [begin] = earlier;
  if (begin === undefined || earlier.at(-1)?.seq !== log.before) return log;
  return { events: [...earlier, ...log.events], before: begin.seq - 1 };
}

/** What a model is saying. `ended` is a text whose message is on its way into the transcript. */
export interface Speech {
  readonly runId: string;
  readonly text: string;
  readonly ended: boolean;
}

/** The text with a piece more; null if pieces are missing in between. */
export function hear(speech: Speech | null, piece: { runId: string; delta: string; offset: number }): Speech | null {
  const before = speech === null || speech.ended || speech.runId !== piece.runId ? "" : speech.text;
  if (piece.offset > before.length) return null;
  return { runId: piece.runId, text: before.slice(0, piece.offset) + piece.delta, ended: false };
}
