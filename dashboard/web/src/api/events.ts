// Live events as something to iterate over: a connection that begins again after the last event that came.

import type { AgencyHandle, Following, ThreadHandle } from "./agencyClient";
import { Connection, type Open } from "./connection";
import { isStored } from "./log";
import { path } from "./transport";
import type { AgencyEvent, Incoming } from "./types";

/** The events of a thread after a seq, without a gap or a repeat. */
export function followThread(thread: ThreadHandle, { after = 0, signal }: Following): AsyncGenerator<Incoming, void> {
  let last = after;
  return follow<Incoming>({
    address: () => `${path`/agency/${thread.agency}/agent/${thread.id}/ws`}?after=${last}`,
    prepare: () => thread.info(), // says why, if there is no such thread or no access to it
    open: thread.transport.open,
    take: (event) => {
      if (!isStored(event)) return "new";
      if (event.seq <= last) return "known";
      if (event.seq > last + 1) return "gap";
      last = event.seq;
      return "new";
    },
    ...(signal ? { signal } : {}),
  });
}

/** The events of all threads of an agency after a cursor. */
export function followAgency(agency: AgencyHandle, { after, signal }: Following): AsyncGenerator<AgencyEvent, void> {
  let last: number | "now" = after ?? "now";
  return follow<AgencyEvent>({
    address: () => `${path`/agency/${agency.id}/ws`}?after=${last}`,
    prepare: () => agency.info(),
    open: agency.transport.open,
    take: (event) => {
      if (last !== "now" && event.cursor <= last) return "known";
      last = event.cursor;
      return "new";
    },
    ...(signal ? { signal } : {}),
  });
}

interface Source<E> {
  address(): string;
  prepare(): Promise<unknown>;
  open: Open;
  /** Whether an event is the next one; after a gap the connection begins again. */
  take(event: E): "new" | "known" | "gap";
  signal?: AbortSignal;
}

async function* follow<E>({ take, signal, ...source }: Source<E>): AsyncGenerator<E, void> {
  const waiting: E[] = [];
  let wake = () => {};
  const connection: Connection = new Connection({
    ...source,
    received: (message) => {
      const event = message as E;
      const found = take(event);
      if (found === "gap") connection.restart(null);
      if (found !== "new") return;
      waiting.push(event);
      wake();
    },
    changed: () => wake(),
  });
  const stop = () => {
    connection.close();
    wake();
  };
  signal?.addEventListener("abort", stop);
  try {
    while (!signal?.aborted) {
      const event = waiting.shift();
      if (event !== undefined) yield event;
      else if (connection.status === "ended") throw connection.problem;
      else
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  } finally {
    signal?.removeEventListener("abort", stop);
    connection.close();
  }
}
