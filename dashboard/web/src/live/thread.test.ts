import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Socket } from "@/api/connection";
import { Problem } from "@/api/problem";
import type { AgentState, Incoming, Message, RunEnvelope, RunState, ThreadEvent } from "@/api/types";
import { ThreadStore } from "@/live/thread";

/** A gateway with one thread, in memory: what it has stored, and the sockets that it has open. */
class Gateway {
  events: ThreadEvent[] = [];
  messages: Message[] = [];
  status: RunState["status"] = "running";
  failing: Problem | null = null;
  sockets: FakeSocket[] = [];
  asked: string[] = [];
  stateLoads = 0;

  add(type: ThreadEvent["type"], data: ThreadEvent["data"] = {}): ThreadEvent {
    const event: ThreadEvent = { threadId: "t", seq: this.events.length + 1, ts: new Date().toISOString(), type, data };
    this.events.push(event);
    return event;
  }

  tell(event: Incoming): void {
    for (const socket of this.sockets) socket.onmessage?.({ data: JSON.stringify(event) });
  }

  say(delta: string, offset: number): void {
    this.tell({ threadId: "t", seq: null, ts: "", type: "model.delta", data: { runId: "t.1", delta, offset } });
  }

  die(): void {
    const gone = this.sockets;
    this.sockets = [];
    for (const socket of gone) socket.onclose?.({ code: 1006, reason: "" });
  }

  readonly source = {
    summary: async () => this.#answer({ seq: this.events.length }),
    state: async () => {
      this.stateLoads += 1;
      return this.#answer({
        state: { messages: this.messages, tools: [], agentType: "clerk", parent: null } as unknown as AgentState,
        run: { runId: "t.1", status: this.status, step: 1, reason: null, nextAlarmAt: null },
      });
    },
    run: async () => this.#answer({ runId: "t.1", status: this.status, errors: [] } as unknown as RunEnvelope),
    events: async (after: number, limit: number) => {
      return this.#answer({ events: this.events.slice(after, after + limit), next: null });
    },
    open: async (address: string): Promise<Socket> => {
      if (this.failing) throw this.failing;
      this.asked.push(address);
      const socket = new FakeSocket(this);
      queueMicrotask(() =>
        queueMicrotask(() => socket.begin(Number(new URL(address, "ws://x").searchParams.get("after")))),
      );
      return socket;
    },
  };

  #answer<T>(value: T): T {
    if (this.failing) throw this.failing;
    return value;
  }
}

class FakeSocket implements Socket {
  readyState = 0;
  onopen: Socket["onopen"] = null;
  onmessage: Socket["onmessage"] = null;
  onclose: Socket["onclose"] = null;
  readonly #gateway: Gateway;

  constructor(gateway: Gateway) {
    this.#gateway = gateway;
  }

  begin(after: number): void {
    this.readyState = 1;
    this.#gateway.sockets.push(this);
    this.onopen?.();
    for (const event of this.#gateway.events.slice(after)) this.onmessage?.({ data: JSON.stringify(event) });
  }

  close(): void {
    this.#gateway.sockets = this.#gateway.sockets.filter((each) => each !== this);
    this.onclose?.({ code: 1005, reason: "" });
  }
}

const said = (role: Message["role"], content: string): Message => ({
  id: content,
  role,
  content,
  images: [],
  toolCalls: [],
  toolCallId: null,
  origin: null,
  transient: false,
  meta: null,
});

let gateway: Gateway;
let store: ThreadStore;

beforeEach(() => {
  vi.useFakeTimers();
  gateway = new Gateway();
});

afterEach(() => {
  store.close();
  vi.useRealTimers();
});

async function open(): Promise<void> {
  store = new ThreadStore("a", "t", gateway.source);
  await pass();
}

const pass = (ms = 500) => vi.advanceTimersByTimeAsync(ms);
const seqs = () => store.get().log.events.map((each) => each.seq);

describe("a thread’s store", () => {
  it("has every event once, whether it came before or after it was opened", async () => {
    gateway.add("thread.created");
    gateway.add("run.started");
    await open();
    expect(seqs()).toEqual([1, 2]);
    gateway.tell(gateway.add("run.tick"));
    gateway.tell(gateway.events[2] as ThreadEvent);
    await pass();
    expect(seqs()).toEqual([1, 2, 3]);
    expect(store.get().connection).toBe("open");
  });

  it("goes on after the last event when the connection breaks", async () => {
    gateway.add("thread.created");
    await open();
    gateway.die();
    await pass(0);
    expect(store.get().connection).toBe("waiting");
    gateway.add("run.started");
    gateway.add("run.tick");
    await pass(2_000);
    expect(seqs()).toEqual([1, 2, 3]);
    expect(gateway.asked.map((each) => each.split("after=")[1])).toEqual(["0", "1"]);
  });

  it("keeps what it has while the gateway is away, and ends when it is refused", async () => {
    gateway.add("thread.created");
    gateway.messages = [said("user", "hello")];
    await open();
    gateway.failing = new Problem(0, "The gateway does not answer.");
    gateway.die();
    await pass(30_000);
    expect(store.get().connection).toBe("waiting");
    expect(store.get().problem?.message).toBe("The gateway does not answer.");
    expect(store.get().state?.messages).toHaveLength(1);
    gateway.failing = new Problem(404, "It was deleted.");
    await pass(20_000);
    expect(store.get().connection).toBe("ended");
  });

  it("asks again for what is missing, and takes nothing out of order", async () => {
    gateway.add("thread.created");
    await open();
    gateway.add("run.started");
    gateway.tell(gateway.add("run.tick")); // 2 was lost on the way
    await pass(2_000);
    expect(seqs()).toEqual([1, 2, 3]);
  });

  it("shows a reply while it is said, and no longer when it is in the transcript", async () => {
    gateway.messages = [said("user", "hello")];
    await open();
    gateway.say("Good ", 0);
    gateway.say("day", 5);
    await pass(20);
    expect(store.get().speech?.text).toBe("Good day");
    gateway.messages = [...gateway.messages, said("assistant", "Good day")];
    gateway.tell(gateway.add("model.completed", { usage: {} }));
    await pass();
    expect(store.get().speech).toBeNull();
    expect(store.get().state?.messages.at(-1)?.content).toBe("Good day");
  });

  it("loses no word of a reply when the connection breaks in its middle", async () => {
    await open();
    gateway.say("Good ", 0);
    await pass(20);
    gateway.die();
    await pass(2_000);
    gateway.say("Good day, my", 0); // the text so far, then the rest
    gateway.say(" friend", 12);
    await pass(20);
    expect(store.get().speech?.text).toBe("Good day, my friend");
  });

  it("begins again rather than show a text with a hole", async () => {
    await open();
    gateway.say("friend", 12);
    await pass(2_000);
    expect(gateway.asked).toHaveLength(2);
    expect(store.get().speech).toBeNull();
  });

  it("loads the state once for a burst of events", async () => {
    await open();
    const before = gateway.stateLoads;
    for (let n = 0; n < 50; n++) gateway.tell(gateway.add("tool.started", { callId: String(n) }));
    await pass();
    expect(seqs()).toHaveLength(50);
    expect(gateway.stateLoads - before).toBeLessThanOrEqual(2);
  });

  it("begins with the latest of many events and has all of them when they are wanted", async () => {
    for (let n = 0; n < 2_500; n++) gateway.add("run.tick");
    await open();
    expect(seqs()).toHaveLength(400);
    expect(store.get().log.before).toBe(2_100);
    await store.loadAll();
    expect(seqs()).toEqual(Array.from({ length: 2_500 }, (_, n) => n + 1));
  });

  it("says when a model is asked again", async () => {
    await open();
    const error = { code: "ERR_RATE", message: "slow down" };
    gateway.tell(gateway.add("model.completed", { error, retryAt: "2026-01-01T00:00:00Z" }));
    await pass();
    expect(store.get().trouble).toEqual({ ...error, retryAt: "2026-01-01T00:00:00Z" });
    gateway.tell(gateway.add("model.started"));
    await pass();
    expect(store.get().trouble).toBeNull();
  });
});
