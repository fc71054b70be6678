// How requests are made: an address, a secret, and `fetch`. What can be asked is in `agencyClient.ts`.

import type { Open, Socket } from "./connection";
import { Problem, sentence } from "./problem";

export type Query = Record<string, string | number | boolean | null | undefined>;

export interface RequestOptions {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  body?: unknown;
  query?: Query;
  signal?: AbortSignal;
}

export interface TransportOptions {
  /** The gateway's address, as `http://127.0.0.1:8000`; in a page also a path of the page's own server. */
  url: string;
  /** The installation's secret, or a key of an agency; a function is asked before each request. */
  secret?: string | null | undefined | (() => string | null);
  /** In the place of the global one. */
  fetch?: typeof fetch;
  /** In the place of the global one, which Node has from version 22 on. */
  WebSocket?: new (
    url: URL,
  ) => unknown;
}

/** A path with encoded parts: path`/agency/${id}/agents`. */
export function path(strings: TemplateStringsArray, ...parts: string[]): string {
  return strings.reduce(
    (made, text, at) => made + text + (at < parts.length ? encodeURIComponent(parts[at] ?? "") : ""),
    "",
  );
}

function withQuery(address: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${address}?${text}` : address;
}

/** Headers are bytes, and the gateway reads them as UTF-8. */
function asBytes(text: string): string {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

export class Transport {
  readonly #options: TransportOptions;
  readonly #url: string;

  constructor(options: TransportOptions) {
    this.#options = options;
    this.#url = options.url.replace(/\/$/, "");
  }

  /** The answer as it comes; refusals are thrown as a `Problem`. */
  async send(address: string, init: RequestInit & { query?: Query } = {}): Promise<Response> {
    const { query, ...rest } = init;
    let answer: Response;
    try {
      answer = await (this.#options.fetch ?? fetch)(this.#url + withQuery(address, query), {
        cache: "no-store",
        ...rest,
        headers: { ...this.#authorization(), ...(rest.headers as Record<string, string> | undefined) },
      });
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw new Problem(0, "The gateway does not answer.");
    }
    if (!answer.ok) throw await refusal(answer);
    return answer;
  }

  /** Ask for JSON, and send JSON if there is a body. */
  async request<T>(address: string, { method = "GET", body, query, signal }: RequestOptions = {}): Promise<T> {
    const answer = await this.send(address, {
      method,
      ...(query ? { query } : {}),
      ...(signal ? { signal } : {}),
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }),
    });
    if (answer.status === 204) return undefined as T;
    try {
      return (await answer.json()) as T;
    } catch {
      throw new Problem(0, "The gateway's answer broke off.");
    }
  }

  /** Open a socket. Browsers send no headers with one, so the secret is changed for a ticket. */
  readonly open: Open = async (address) => {
    const here = typeof location === "undefined" ? undefined : location.href;
    const url = new URL(this.#url + address, here);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    if (this.#secret()) {
      const { ticket } = await this.request<{ ticket: string }>("/tickets", { method: "POST" });
      url.searchParams.set("ticket", ticket);
    }
    const Made = this.#options.WebSocket ?? globalThis.WebSocket;
    if (Made === undefined) {
      throw new Problem(400, "There is no WebSocket here: use Node 22 or newer, or give the client one.");
    }
    return new Made(url) as Socket;
  };

  #secret(): string | null {
    const { secret } = this.#options;
    return (typeof secret === "function" ? secret() : secret) ?? null;
  }

  #authorization(): Record<string, string> {
    const known = this.#secret();
    return known ? { Authorization: `Bearer ${asBytes(known)}` } : {};
  }
}

async function refusal(answer: Response): Promise<Problem> {
  const said = (await answer.json().catch(() => ({}))) as { detail?: string; code?: string };
  const words = said.detail ? sentence(said.detail) : `The gateway answered ${answer.status}.`;
  return new Problem(answer.status, words, said.code ?? null, seconds(answer.headers?.get("Retry-After")));
}

function seconds(given: string | null | undefined): number {
  return given && /^\d+$/.test(given) ? Number(given) : 0;
}

/** What the gateway may not have yet: null in the place of a 404 or 405. */
export async function ifThere<T>(asked: Promise<T>): Promise<T | null> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof Problem && (error.status === 404 || error.status === 405)) return null;
    throw error;
  }
}
