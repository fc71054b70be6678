// The agencies that the signed-in person may see, the newest first.

import { listAgencies } from "@/api/agencies";
import { asProblem, type Problem } from "@/api/problem";
import type { Agency } from "@/api/types";
import { Store } from "@/live/store";

const RETRY_MS = 2_000;

interface Agencies {
  /** Null until they are known. */
  list: readonly Agency[] | null;
  problem: Problem | null;
}

export const agencies = new Store<Agencies>({ list: null, problem: null });

export async function loadAgencies(): Promise<void> {
  try {
    agencies.set({ list: await listAgencies(), problem: null });
  } catch (error) {
    const problem = asProblem(error);
    agencies.update({ problem });
    if (problem.passes) setTimeout(() => void loadAgencies(), RETRY_MS);
  }
}

/** One of them is new or has changed. */
export function putAgency(made: Agency): void {
  const list = agencies.get().list ?? [];
  const known = list.some((each) => each.id === made.id);
  agencies.update({ list: known ? list.map((each) => (each.id === made.id ? made : each)) : [made, ...list] });
}

export function forgetAgency(id: string): void {
  agencies.update({ list: (agencies.get().list ?? []).filter((each) => each.id !== id) });
}
