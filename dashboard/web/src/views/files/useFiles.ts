import { useLoad } from "@/api/hooks";
import { listFiles, readFile } from "@/api/threads";
import type { AgentState } from "@/api/types";
import { contentOf } from "@/files/content";

/** The files of a thread, loaded again when its state changes. */
export function useFiles(agency: string, thread: string, state: AgentState | null) {
  return useLoad(`${agency}/${thread}`, () => listFiles(agency, thread), { changed: state });
}

/** The content of one file. The state has its text, so it says when the file has changed. */
export function useContent(agency: string, thread: string, path: string | null, state: AgentState | null) {
  const key = path === null ? null : `${agency}/${thread}${path}`;
  return useLoad(key, async () => contentOf(await readFile(agency, thread, path ?? "")), {
    changed: path === null ? null : state?.files?.[path],
  });
}
