/** Codes of what stays so until a person changes something at the server. */
const LASTING = new Set<string | null>(["ERR_DAMAGED", "ERR_NOT_A_THREAD_STORE", "ERR_NEWER_STORE"]);

/** What a request was refused with, in words for people. */
export class Problem extends Error {
  /** `status` is 0 if no answer came; `code` is the gateway's error code, which never changes; `retryAfter` is in how
   *  many seconds the gateway wants to be asked again. */
  constructor(
    readonly status: number,
    message: string,
    readonly code: string | null = null,
    readonly retryAfter = 0,
  ) {
    super(message);
    this.name = "Problem";
  }

  /** Whether the same request may work later. */
  get passes(): boolean {
    return this.status === 0 || this.status === 429 || (this.status >= 500 && !LASTING.has(this.code));
  }
}

/** Any failure as something that can be shown. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, error instanceof Error ? error.message : String(error));
}

/** The gateway's details are clauses; people read sentences. */
export function sentence(text: string): string {
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(capital) ? capital : `${capital}.`;
}
