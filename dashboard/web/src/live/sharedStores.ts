// Stores that are open now, each once, however many parts of the page look at it.

/** People who leave a page often come back at once: another tab of the same thread, a step back in the history. */
const LINGER_MS = 4_000;

interface Kept<S> {
  store: S;
  users: number;
  leaving: ReturnType<typeof setTimeout> | null;
}

export class SharedStores<S extends { close(): void }> {
  readonly #make: (...names: string[]) => S;
  readonly #kept = new Map<string, Kept<S>>();

  constructor(make: (...names: string[]) => S) {
    this.#make = make;
  }

  /** The store of these names, made if there is none. It is closed some time after the last user has left. */
  get(...names: string[]): S {
    return this.#entry(names).store;
  }

  enter(...names: string[]): () => void {
    const key = names.join(" ");
    const entry = this.#entry(names);
    entry.users += 1;
    if (entry.leaving !== null) clearTimeout(entry.leaving);
    entry.leaving = null;
    return () => {
      entry.users -= 1;
      if (entry.users === 0) entry.leaving = setTimeout(() => this.#drop(key, entry), LINGER_MS);
    };
  }

  /** Close every store, as after signing in as another person. */
  clear(): void {
    for (const [key, entry] of this.#kept) this.#drop(key, entry);
  }

  #entry(names: string[]): Kept<S> {
    const key = names.join(" ");
    let entry = this.#kept.get(key);
    if (entry === undefined) {
      entry = { store: this.#make(...names), users: 0, leaving: null };
      const made = entry;
      made.leaving = setTimeout(() => this.#drop(key, made), LINGER_MS); // if it is rendered and never shown
      this.#kept.set(key, made);
    }
    return entry;
  }

  #drop(key: string, entry: Kept<S>): void {
    if (this.#kept.get(key) === entry) this.#kept.delete(key);
    entry.store.close();
  }
}
