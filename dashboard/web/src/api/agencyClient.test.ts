import { afterEach, expect, test, vi } from "vitest";
import { AgencyClient } from "./agencyClient";
import type { Socket } from "./connection";
import { Problem } from "./problem";

/** A gateway that answers from a table and records what it was asked; its sockets are opened and closed by hand. */
class Gateway {
  readonly asked: { method: string; url: string; body: unknown; secret: string | undefined }[] = [];
  readonly sockets: FakeSocket[] = [];
  readonly answers: Record<string, () => unknown> = {};

  client(secret?: string): AgencyClient {
    const sockets = this.sockets;
    return new AgencyClient({
      url: "http://gateway/",
      ...(secret ? { secret } : {}),
      fetch: (async (url: string, init: RequestInit) => this.#answer(url, init)) as typeof fetch,
      WebSocket: class extends FakeSocket {
        constructor(url: URL) {
          super(url);
          sockets.push(this);
        }
      },
    });
  }

  #answer(url: string, init: RequestInit): Response {
    const { method = "GET", body } = init;
    const headers = init.headers as Record<string, string>;
    this.asked.push({ method, url, body: body ? JSON.parse(String(body)) : undefined, secret: headers.Authorization });
    const found = this.answers[`${method} ${new URL(url).pathname}`];
    if (found === undefined) {
      return Response.json({ detail: "there is no such thread", code: "ERR_NOT_FOUND" }, { status: 404 });
    }
    const answer = found() ?? null;
    return answer instanceof Response ? answer : Response.json(answer);
  }

  /** The n-th socket, once it was made. */
  async socket(n: number): Promise<FakeSocket> {
    await vi.waitFor(() => expect(this.sockets.length).toBeGreaterThan(n), { timeout: 3_000 });
    const made = this.sockets[n];
    if (made === undefined) throw new Error("unreachable");
    return made;
  }
}

class FakeSocket implements Socket {
  readyState = 1;
  onopen: Socket["onopen"] = null;
  onmessage: Socket["onmessage"] = null;
  onclose: Socket["onclose"] = null;

  constructor(readonly url: URL) {
    queueMicrotask(() => this.onopen?.());
  }

  say(...seqs: number[]): void {
    for (const seq of seqs) this.onmessage?.({ data: JSON.stringify({ type: "run.tick", seq, data: {} }) });
  }

  close(code = 1000): void {
    this.onclose?.({ code, reason: "" });
  }
}

const gateway = () => {
  const made = new Gateway();
  made.answers["GET /agency/a/agent/t"] = () => ({ id: "t", seq: 1 });
  return made;
};

afterEach(() => vi.restoreAllMocks());

test("a list is whole, however short its pages are", async () => {
  const at = new Gateway();
  const pages = [
    { blueprints: [{ name: "a" }, { name: "b" }], next: "b" },
    { blueprints: [{ name: "c" }], next: null },
  ];
  at.answers["GET /agency/a/blueprints"] = () => pages.shift();
  const found = await at.client().agency("a").blueprints();
  expect(found.map((each) => each.name)).toEqual(["a", "b", "c"]);
  expect(at.asked.map(({ url }) => new URL(url).searchParams.get("after"))).toEqual([null, "b"]);
});

test("events go on after a cut where they broke off, none twice and none missing", async () => {
  const at = gateway();
  const events = at.client().agency("a").thread("t").events();
  const seen = async (count: number) => {
    const found = [];
    for (let n = 0; n < count; n++) found.push((await events.next()).value?.seq);
    return found;
  };
  const first = seen(2);
  const one = await at.socket(0);
  expect(one.url.href).toBe("ws://gateway/agency/a/agent/t/ws?after=0");
  one.say(1, 2);
  expect(await first).toEqual([1, 2]);
  const second = seen(2);
  one.say(2, 5); // known already, and a gap: it begins again
  one.close();
  const two = await at.socket(1);
  expect(two.url.search).toBe("?after=2");
  two.say(2, 3, 4);
  expect(await second).toEqual([3, 4]);
  await events.return();
});

test("a refusal ends them with what the gateway said, and a signal ends them without", async () => {
  const at = gateway();
  const nothing = at.client().agency("a").thread("nowhere").events();
  await expect(nothing.next()).rejects.toEqual(new Problem(404, "There is no such thread.", "ERR_NOT_FOUND"));
  const stop = new AbortController();
  const next = at.client().agency("a").thread("t").events({ signal: stop.signal }).next();
  await at.socket(0);
  stop.abort();
  expect(await next).toEqual({ value: undefined, done: true });
});

test("a gateway that wants to be asked later is", async () => {
  const at = gateway();
  const began = performance.now();
  const info = at.answers["GET /agency/a/agent/t"];
  const said = { status: 429, headers: { "Retry-After": "1" } };
  at.answers["GET /agency/a/agent/t"] = () => {
    if (info) at.answers["GET /agency/a/agent/t"] = info;
    return Response.json({ detail: "too many requests", code: "ERR_RATE_LIMITED" }, said);
  };
  const events = at.client().agency("a").thread("t").events();
  const next = events.next();
  (await at.socket(0)).say(1);
  expect((await next).value?.seq).toBe(1);
  expect(performance.now() - began).toBeGreaterThan(990);
  await events.return();
});

test("a secret goes with every request, and as a ticket with a socket", async () => {
  const at = gateway();
  at.answers["POST /tickets"] = () => ({ ticket: "once" });
  at.answers["POST /agency/a/agents"] = () => ({ id: "t" });
  const thread = await at.client("päss").agency("a").create("clerk", "Hello!");
  expect(at.asked[0]).toMatchObject({
    url: "http://gateway/agency/a/agents",
    body: { agentType: "clerk", messages: [{ content: "Hello!" }] },
    secret: "Bearer p\u00c3\u00a4ss",
  });
  const events = thread.events({ after: 7 });
  const next = events.next();
  const socket = await at.socket(0);
  expect(socket.url.search).toBe("?after=7&ticket=once");
  socket.say(8);
  expect((await next).value?.seq).toBe(8);
  await events.return();
});

test("waiting ends with the run, and calls are approved all at once or by their ids", async () => {
  const at = gateway();
  let status = "running";
  at.answers["GET /agency/a/agent/t/run"] = () => ({ status, data: "done" });
  at.answers["POST /agency/a/agent/t/approve"] = () => ({ ok: true });
  const thread = at.client().agency("a").thread("t");
  const waited = thread.wait();
  const socket = await at.socket(0);
  expect(socket.url.search).toBe("?after=1");
  status = "completed";
  socket.onmessage?.({ data: JSON.stringify({ type: "agent.completed", seq: 2, data: {} }) });
  expect(await waited).toEqual({ status: "completed", data: "done" });
  await thread.approve();
  await thread.approve(["call_1"]);
  expect(at.asked.filter(({ method }) => method === "POST").map(({ body }) => body)).toEqual([
    { approved: true },
    { decisions: { call_1: { decision: "approve" } } },
  ]);
});
