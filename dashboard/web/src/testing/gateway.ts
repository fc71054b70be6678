// A gateway for tests of components, in the place of `fetch` and `WebSocket`: it answers what a test tells it to, and
// keeps what it was asked.

import { vi } from "vitest";
import type { Approval, Blueprint, Json, ThreadEvent, ThreadSummary } from "@/api/types";

interface Asked {
  /** Such as `POST /agency/a/agents`. */
  what: string;
  body: Json;
  headers: Readonly<Record<string, string>>;
}

interface Answer {
  status: number;
  body: unknown;
  headers: Record<string, string>;
  effect(): void;
}

export class FakeGateway {
  readonly asked: Asked[] = [];
  readonly #answers = new Map<string, Answer>();
  readonly #events = new Map<string, readonly ThreadEvent[]>();

  constructor() {
    const gateway = this;
    vi.stubGlobal("fetch", async (address: string, init: RequestInit = {}) => gateway.#fetch(address, init));
    vi.stubGlobal(
      "WebSocket",
      class extends FakeSocket {
        constructor(address: URL) {
          super(gateway.#events.get(address.pathname) ?? []);
        }
      },
    );
  }

  /** What a request is answered with from now on, and what else it changes. A string is content as
   * it is. Requests without an answer get a 404. */
  answers(what: string, body: unknown, { status = 200, headers = {}, effect = () => {} } = {}): this {
    this.#answers.set(what, { status, body, headers, effect });
    return this;
  }

  refuses(what: string, status: number, detail: string, code?: string): this {
    return this.answers(what, { detail, code }, { status });
  }

  /** An agency with these threads, approvals and blueprints. */
  agency(id: string, has: { threads?: ThreadSummary[]; approvals?: Approval[]; blueprints?: Blueprint[] }): this {
    return this.answers(`GET /agency/${id}/agents`, { agents: has.threads ?? [], next: null })
      .answers(`GET /agency/${id}/approvals`, { approvals: has.approvals ?? [], next: null })
      .answers(`GET /agency/${id}/blueprints`, { blueprints: has.blueprints ?? [] });
  }

  /** A thread with these events, which come over its socket. */
  thread(agency: string, id: string, events: readonly ThreadEvent[]): this {
    const state = { messages: [], tools: [], agentType: "clerk", parent: null, subagents: [] };
    this.#events.set(`/agency/${agency}/agent/${id}/ws`, events);
    return this.answers(`GET /agency/${agency}/agent/${id}`, { seq: events.length }).answers(
      `GET /agency/${agency}/agent/${id}/state`,
      { state, run: { runId: null, status: "completed", step: 0, reason: null, nextAlarmAt: null } },
    );
  }

  /** The bodies of the requests of this kind, oldest first. */
  bodies(what: string): Json[] {
    return this.asked.filter((each) => each.what === what).map(({ body }) => body);
  }

  #fetch(address: string, { method = "GET", body, headers = {} }: RequestInit): Response {
    const what = `${method} ${address.split("?")[0]}`;
    this.asked.push({
      what,
      body: typeof body === "string" ? (JSON.parse(body) as Json) : null,
      headers: headers as Record<string, string>,
    });
    const answer = this.#answers.get(what);
    if (answer === undefined) return Response.json({ detail: `no answer for ${what}` }, { status: 404 });
    answer.effect();
    const init = { status: answer.status, headers: answer.headers };
    return typeof answer.body === "string"
      ? new Response(answer.body, {
          ...init,
          headers: { "Content-Type": "text/plain; charset=utf-8", ...answer.headers },
        })
      : Response.json(answer.body, init);
  }
}

/** A socket that opens, sends what was stored, and stays open. */
class FakeSocket {
  readyState = 0;
  onopen: (() => void) | null = null;
  onmessage: ((message: { data: string }) => void) | null = null;
  onclose: ((closed: { code: number; reason: string }) => void) | null = null;

  constructor(events: readonly ThreadEvent[]) {
    setTimeout(() => {
      this.readyState = 1;
      this.onopen?.();
      for (const event of events) this.onmessage?.({ data: JSON.stringify(event) });
    });
  }

  close(): void {
    this.readyState = 3;
    this.onclose?.({ code: 1000, reason: "" });
  }
}
