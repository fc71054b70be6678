// The one way to load something by request. What changes all the time comes over sockets into the stores of src/live;
// a handful of views load the rest with this. (TanStack Query would add 12 kB for a cache that none of them shares.)

import { useCallback, useEffect, useRef, useState } from "react";
import { asProblem, type Problem } from "@/api/problem";

interface Loaded<T> {
  /** Undefined until the first answer. It stays while it is loaded again, and when that fails. */
  data: T | undefined;
  /** Why the last request failed; null after one that worked. */
  problem: Problem | null;
  reload(): Promise<void>;
}

interface When {
  /** Load again this often while the page is visible. */
  everyMs?: number;
  /** Load again when this value changes. */
  changed?: unknown;
}

/** Loads something when it is first shown. `key` names it: another key is another thing, and null is nothing. */
export function useLoad<T>(key: string | null, load: () => Promise<T>, { everyMs, changed }: When = {}): Loaded<T> {
  const [state, setState] = useState<{ key: string | null; data?: T; problem: Problem | null }>({ key, problem: null });
  const latest = useRef({ load, key });
  latest.current = { load, key };
  const requests = useRef(0);

  const reload = useCallback(async () => {
    const { load, key } = latest.current;
    if (key === null) return;
    const request = ++requests.current;
    // An answer counts only if no later request was made: answers can overtake each other.
    const isLate = () => request !== requests.current || latest.current.key !== key;
    try {
      const data = await load();
      if (!isLate()) setState({ key, data, problem: null });
    } catch (error) {
      const problem = asProblem(error);
      if (!isLate()) setState((before) => (before.key === key ? { ...before, problem } : { key, problem }));
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
