import { useCallback, useEffect, useRef, useState } from "react";
import { asProblem, type Problem } from "@/api/problem";

interface Loaded<T> {
  /** Undefined until it is here; what was there last stays while it is loaded again. */
  data: T | undefined;
  problem: Problem | null;
  reload(): Promise<void>;
}

/** Something that is loaded when it is first shown, and again every so often while somebody looks. */
export function useLoad<T>(load: () => Promise<T>, key: string, everyMs?: number): Loaded<T> {
  const [state, setState] = useState<{ key: string; data?: T; problem: Problem | null }>({ key, problem: null });
  const latest = useRef({ load, key });
  latest.current = { load, key };

  const reload = useCallback(async () => {
    const asked = latest.current.key;
    try {
      const data = await latest.current.load();
      if (latest.current.key === asked) setState({ key: asked, data, problem: null });
    } catch (error) {
      const problem = asProblem(error);
      if (latest.current.key !== asked) return;
      setState((before) => (before.key === asked ? { ...before, problem } : { key: asked, problem }));
    }
  }, []);

  // biome-ignore lint/correctness/useExhaustiveDependencies: another key is another thing to load
  useEffect(() => {
    void reload();
    if (everyMs === undefined) return;
    const timer = setInterval(() => !document.hidden && void reload(), everyMs);
    return () => clearInterval(timer);
  }, [key, everyMs, reload]);

  const mine = state.key === key;
  return { data: mine ? state.data : undefined, problem: mine ? state.problem : null, reload };
}
