import { useCallback, useRef, useState } from "react";
import { asProblem, type Problem } from "@/api/problem";

interface Action<A extends unknown[]> {
  /** Do it, unless it is being done already; true if it worked. */
  run(...args: A): Promise<boolean>;
  busy: boolean;
  /** Why it did not work the last time. */
  problem: Problem | null;
  clear(): void;
}

/** The one way to do something that the gateway may refuse. It never runs twice at a time, and keeps why it failed. */
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

  const clear = useCallback(() => setProblem(null), []);
  return { run, busy, problem, clear };
}
