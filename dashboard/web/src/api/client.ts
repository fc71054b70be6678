// The gateway's HTTP API: how requests are made. What can be asked is in the modules beside this one.

import { Problem, sentence } from "@/api/problem";
import { authorization, secret } from "@/api/secret";
import { BASE } from "@/router/base";

type Query = Record<string, string | number | boolean | null | undefined>;

interface Options {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  body?: unknown;
  query?: Query;
  signal?: AbortSignal;
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

/** The answer as it comes; refusals are thrown as a `Problem`. */
export async function send(address: string, init: RequestInit & { query?: Query } = {}): Promise<Response> {
  const { query, ...rest } = init;
  let answer: Response;
  try {
    answer = await fetch(BASE + withQuery(address, query), {
      cache: "no-store",
      ...rest,
      headers: { ...authorization(), ...(rest.headers as Record<string, string> | undefined) },
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "The gateway does not answer.");
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

/** Ask for JSON, and send JSON if there is a body. */
export async function request<T>(address: string, { method = "GET", body, query, signal }: Options = {}): Promise<T> {
  const answer = await send(address, {
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

async function refusal(answer: Response): Promise<Problem> {
  const said = (await answer.json().catch(() => ({}))) as { detail?: string; code?: string };
  const words = said.detail ? sentence(said.detail) : `The gateway answered ${answer.status}.`;
  return new Problem(answer.status, words, said.code ?? null);
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

/** Where to open a socket. Browsers send no headers with one, so the secret is changed for a ticket. */
export async function socketAddress(address: string): Promise<URL> {
  const url = new URL(BASE + address, location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  if (secret.get()) {
    const { ticket } = await request<{ ticket: string }>("/tickets", { method: "POST" });
    url.searchParams.set("ticket", ticket);
  }
  return url;
}
