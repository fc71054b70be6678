// How components make requests: `useLoad` for what they show, `useAction` for what a person does. Both keep why the
// gateway refused. What changes all the time comes over sockets into the stores of src/live instead.
// (TanStack Query would add 12 kB for a cache that no two views share.)

import { useCallback, useEffect, useRef, useState } from "react";
import { asProblem, type Problem } from "@/api/problem";

interface Loaded<T> {
  /** Undefined until the first answer. It stays while it is loaded again, and when that fails. */
  data: T | undefined;
  /** Why the last request failed; null after one that worked. */
  problem: Problem | null;
  /** Loads the thing of the last rendering: after a change of the key, call it when that is rendered. */
  reload(): Promise<void>;
}

interface When {
  /** Load again this often while the page is visible. */
  everyMs?: number;
  /** Load again when this value changes. */
  changed?: unknown;
}

/** Loads something when it is first shown. `key` names it: with another key it is loaded anew, with null not at all. */
export function useLoad<T>(key: string | null, load: () => Promise<T>, { everyMs, changed }: When = {}): Loaded<T> {
  const [state, setState] = useState<{ key: string | null; data?: T; problem: Problem | null }>({ key, problem: null });
  const latest = useRef({ load, key });
  latest.current = { load, key };
  const requested = useRef(0);
  const answered = useRef(0);

  const reload = useCallback(async () => {
    const { load, key } = latest.current;
    if (key === null) return;
    const request = ++requested.current;
    // Answers can overtake each other: one that comes after the answer to a later request does not count.
    const isNews = () => {
      if (latest.current.key !== key || request < answered.current) return false;
      answered.current = request;
      return true;
    };
    try {
      const data = await load();
      if (isNews()) setState({ key, data, problem: null });
    } catch (error) {
      const problem = asProblem(error);
      if (isNews()) setState((before) => (before.key === key ? { ...before, problem } : { key, problem }));
    }
  }, []);

  // biome-ignore lint/correctness/useExhaustiveDependencies: `key` and `changed` say when to load
  useEffect(() => {
    void reload();
  }, [key, changed, reload]);

  useEffect(() => {
    if (everyMs === undefined) return;
    const timer = setInterval(() => !document.hidden && void reload(), everyMs);
    return () => clearInterval(timer);
  }, [everyMs, reload]);

  const isMine = state.key === key;
  return { data: isMine ? state.data : undefined, problem: isMine ? state.problem : null, reload };
}

interface Action<A extends unknown[]> {
  /** Starts the work, unless it is in progress; true if it succeeded. */
  run(...args: A): Promise<boolean>;
  busy: boolean;
  /** Why the last try failed; null after one that succeeded. */
  problem: Problem | null;
}

/** Does something that the gateway may refuse. A second click while it is in progress does nothing. */
export function useAction<A extends unknown[]>(work: (...args: A) => Promise<unknown>): Action<A> {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const latest = useRef(work);
  latest.current = work;
  const going = useRef(false);

  const run = useCallback(async (...args: A): Promise<boolean> => {
    if (going.current) return false;
    going.current = true;
    setBusy(true);
    setProblem(null);
    try {
      await latest.current(...args);
      return true;
    } catch (error) {
      setProblem(asProblem(error));
      return false;
    } finally {
      going.current = false;
      setBusy(false);
    }
  }, []);

  return { run, busy, problem };
}
