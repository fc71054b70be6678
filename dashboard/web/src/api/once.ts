/** A key under which a request counts once, however often it is sent. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Doing something once, though it may take several requests: the same content goes with the same key. */
export class Once {
  #content: string | null = null;
  #key = "";

  body<T extends object>(content: T): T & { idempotencyKey: string } {
    const now = JSON.stringify(content);
    if (now !== this.#content) this.#key = newKey();
    this.#content = now;
    return { ...content, idempotencyKey: this.#key };
  }

  /** It has arrived; the same content again is something else. */
  done(): void {
    this.#content = null;
  }
}
