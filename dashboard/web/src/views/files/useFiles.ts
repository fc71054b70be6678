import { useCallback, useEffect, useRef, useState } from "react";
import { asProblem, type Problem } from "@/api/problem";
import { listFiles, readFile } from "@/api/threads";
import type { AgentState, FileEntry } from "@/api/types";
import { type Content, contentOf } from "@/views/files/content";

interface Loaded<T> {
  value: T | null;
  problem: Problem | null;
  again(): void;
}

/** What `load` gives, loaded again when `signal` changes; an answer that comes late does not replace a newer one. */
function useLoaded<T>(load: (() => Promise<T>) | null, name: string, signal: unknown): Loaded<T> {
  const [found, setFound] = useState<{ name: string; value: T | null; problem: Problem | null } | null>(null);
  const [asked, setAsked] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  // biome-ignore lint/correctness/useExhaustiveDependencies: they say when to load, not what
  useEffect(() => {
    let wanted = true;
    latest.current?.().then(
      (value) => wanted && setFound({ name, value, problem: null }),
      (error) => wanted && setFound({ name, value: null, problem: asProblem(error) }),
    );
    return () => {
      wanted = false;
    };
  }, [name, signal, asked]);
  const again = useCallback(() => setAsked((before) => before + 1), []);
  const current = found?.name === name ? found : null;
  return { value: current?.value ?? null, problem: current?.problem ?? null, again };
}

/** The files of a thread, as they are now. */
export function useFiles(agency: string, thread: string, state: AgentState | null): Loaded<FileEntry[]> {
  return useLoaded(() => listFiles(agency, thread), `${agency}/${thread}`, state);
}

/** What is in one of them; the state has its text, and so says when it has changed. */
export function useContent(
  agency: string,
  thread: string,
  path: string | null,
  state: AgentState | null,
): Loaded<Content> {
  const load = path === null ? null : async () => contentOf(await readFile(agency, thread, path));
  return useLoaded(load, `${agency}/${thread}${path ?? ""}`, path === null ? null : state?.files?.[path]);
}
