import { useSyncExternalStore } from "react";

// One clock for the whole page: ages and times that go on.

const watchers = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | null = null;

function subscribe(watcher: () => void): () => void {
  watchers.add(watcher);
  now = Date.now();
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of [...watchers]) each();
  }, 1_000);
  return () => {
    watchers.delete(watcher);
    if (watchers.size === 0 && timer !== null) {
      clearInterval(timer);
      timer = null;
    }
  };
}

/** The time, to the second; rounding it up saves renderings: 60_000 for ages in minutes. */
export function useNow(roundMs = 1_000): number {
  return useSyncExternalStore(subscribe, () => Math.floor(now / roundMs) * roundMs);
}
