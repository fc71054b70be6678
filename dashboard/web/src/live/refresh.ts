const SOON = 60;

/** Work that is asked for again and again: soon after, never twice at a time, and at most half of the time. */
export class Refresh {
  readonly #work: () => Promise<unknown>;
  readonly #soon: number;
  #wanted = false;
  #going = false;

  constructor(work: () => Promise<unknown>, soon = SOON) {
    this.#work = work;
    this.#soon = soon;
  }

  /** What is asked for while it works is done once more after it, so that the last word is always heard. */
  soon(): void {
    this.#wanted = true;
    if (this.#going) return;
    this.#going = true;
    setTimeout(() => void this.#go(), this.#soon);
  }

  async #go(): Promise<void> {
    this.#wanted = false;
    const began = performance.now();
    try {
      await this.#work();
    } finally {
      const took = performance.now() - began;
      setTimeout(() => {
        this.#going = false;
        if (this.#wanted) this.soon();
      }, took);
    }
  }
}
