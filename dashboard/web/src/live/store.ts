// The smallest store that React can watch: one immutable value, told of at most once a frame.

import { useSyncExternalStore } from "react";

const FRAME_MS = 16;

export class Store<T> {
  #value: T;
  readonly #watchers = new Set<() => void>();

  constructor(value: T) {
    this.#value = value;
  }

  readonly get = (): T => this.#value;

  set(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const watcher of [...this.#watchers]) watcher();
  }

  update(change: Partial<T>): void {
    this.set({ ...this.#value, ...change });
  }

  readonly subscribe = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };
}

export function useStore<T>(store: Store<T>): T {
  return useSyncExternalStore(store.subscribe, store.get);
}

/** Calls `work` once, a moment later, however often it is asked to: bursts of events cost one rendering. */
export function eachFrame(work: () => void, ms = FRAME_MS): () => void {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    setTimeout(() => {
      asked = false;
      work();
    }, ms);
  };
}
