// What threads are about: the beginning of the first thing that was said to them, as far as this tab has seen it.

import type { AgentState } from "@/api/types";
import { Store } from "@/live/store";

const LENGTH = 80;

export const titles = new Store<ReadonlyMap<string, string>>(new Map());

export function noteTitle(thread: string, state: Pick<AgentState, "messages">): void {
  if (titles.get().has(thread)) return;
  const first = state.messages.find((each) => each.role === "user" && each.origin === null && each.content.trim());
  if (first === undefined) return;
  const title = first.content.trim().replace(/\s+/g, " ").slice(0, LENGTH);
  titles.set(new Map(titles.get()).set(thread, title));
}
