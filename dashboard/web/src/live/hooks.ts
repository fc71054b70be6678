// How views get their data: each hook keeps its store open for as long as it is used.

import { useEffect } from "react";
import type { AgentState, RunEnvelope, RunState, ThreadEvent, ThreadSummary } from "@/api/types";
import { type AgencyNow, AgencyStore } from "@/live/agency";
import { SharedStores } from "@/live/sharedStores";
import { useStore } from "@/live/store";
import { type ThreadNow, ThreadStore } from "@/live/thread";

const agencies = new SharedStores<AgencyStore>((id = "") => new AgencyStore(id));
const threads = new SharedStores<ThreadStore>((agency = "", id = "") => new ThreadStore(agency, id));

/** Close every store, for when another person has signed in. */
export function closeAll(): void {
  agencies.clear();
  threads.clear();
}

export function useAgencyStore(agency: string): AgencyStore {
  useEffect(() => agencies.enter(agency), [agency]);
  return agencies.get(agency);
}

export function useAgency(agency: string): AgencyNow {
  return useStore(useAgencyStore(agency));
}

export function useThreadStore(agency: string, thread: string): ThreadStore {
  useEffect(() => threads.enter(agency, thread), [agency, thread]);
  return threads.get(agency, thread);
}

export function useThread(agency: string, thread: string): ThreadNow {
  return useStore(useThreadStore(agency, thread));
}

interface ThreadEvents {
  /** In the order of their seq, without a gap or a repeat. */
  events: readonly ThreadEvent[];
  /** Whether they begin with the thread's first; until then, more come at the front. */
  complete: boolean;
}

/** All events of a thread, live. The first use loads the ones before the latest. */
export function useThreadEvents(agency: string, thread: string): ThreadEvents {
  const store = useThreadStore(agency, thread);
  const { log, connection } = useStore(store);
  useEffect(() => {
    if (log.before > 0 && connection === "open") store.loadAll().catch(() => {}); // the connection says what is wrong
  }, [store, log.before, connection]);
  return { events: log.events, complete: log.before === 0 && connection !== "connecting" };
}

interface ThreadStateNow {
  state: AgentState | null;
  run: RunState | null;
  envelope: RunEnvelope | null;
}

/** State and latest run of a thread, loaded again whenever something has happened. Null until the first is here. */
export function useThreadState(agency: string, thread: string): ThreadStateNow {
  const { state, run, envelope } = useThread(agency, thread);
  return { state, run, envelope };
}

/** A thread as the agency's list has it; undefined until it is known. */
export function useThreadSummary(agency: string, thread: string): ThreadSummary | undefined {
  return useAgency(agency).threads.get(thread);
}
