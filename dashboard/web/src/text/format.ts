// What the dashboard calls things: states, times, amounts.

import type { Json, PauseReason, RunStatus, Usage } from "@/api/types";

/** Chooses the colour: `--running`, `--ok`, `--wait`, `--bad`, `--idle`. */
export type Tone = "running" | "ok" | "wait" | "bad" | "idle";

const PAUSED: Record<PauseReason, [Tone, string]> = {
  hitl: ["wait", "waits for you"],
  subagent: ["running", "waits for subagents"],
  exhausted: ["wait", "limit reached"],
  manual: ["wait", "paused"],
  outside: ["running", "waits for the outside"],
};

const STATUSES: Record<RunStatus, [Tone, string]> = {
  registered: ["idle", "new"],
  running: ["running", "running"],
  paused: ["wait", "paused"],
  queued: ["running", "queued"],
  completed: ["ok", "completed"],
  canceled: ["idle", "canceled"],
  error: ["bad", "error"],
};

/** A run's status as a tone and words. */
export function statusOf({ status, reason }: { status: RunStatus; reason?: string | null }): [Tone, string] {
  if (status === "paused" && reason) return PAUSED[reason as PauseReason] ?? STATUSES.paused;
  return STATUSES[status] ?? ["idle", status];
}

export function isActive(status: RunStatus | undefined): boolean {
  return status === "running" || status === "paused" || status === "queued";
}

export function clock(ts: string | number): string {
  return new Date(ts).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

export function dateTime(ts: string | number): string {
  return new Date(ts).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

/** How long ago, in one short word. */
export function ago(ts: string, now = Date.now()): string {
  const seconds = Math.max(0, (now - Date.parse(ts)) / 1000);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 60_000) return `${Math.round(ms / 1000)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

const LEAST_USD = 0.000_001;

/** A cost in US dollars, to what matters of it; null is unknown. */
export function money(usd: number | null): string {
  if (usd === null) return "cost unknown";
  if (usd >= 1 || usd === 0) return `$${usd.toFixed(2)}`;
  if (usd < LEAST_USD) return `< $${LEAST_USD.toFixed(6)}`;
  const places = Math.max(2, 1 - Math.floor(Math.log10(usd)));
  return `$${usd.toFixed(places).replace(/(\.\d\d\d*?)0+$/, "$1")}`;
}

export function number(n: number): string {
  return n.toLocaleString("en");
}

/** Large numbers in few characters: 12.3k, 4.5M. */
export function short(n: number): string {
  if (n < 10_000) return number(n);
  if (n < 999_500) return `${Number((n / 1000).toPrecision(3))}k`;
  return `${Number((n / 1e6).toPrecision(3))}M`;
}

export function bytes(n: number): string {
  if (n < 1024) return count(n, "byte");
  if (n < 1024 ** 2) return `${(n / 1024).toFixed(1)} kB`;
  if (n < 1024 ** 3) return `${(n / 1024 ** 2).toFixed(1)} MB`;
  return `${(n / 1024 ** 3).toFixed(2)} GB`;
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${number(n)} ${n === 1 ? one : many}`;
}

export function total({ input, output }: Usage): number {
  return input + output;
}

const BRIEF = 200;

/** Arguments in one line, to be recognised by. */
export function brief(args: Json): string {
  if (args === null || typeof args !== "object") return String(args).slice(0, BRIEF);
  return Object.values(args)
    .map((value) => (typeof value === "string" ? value : JSON.stringify(value)))
    .join(" · ")
    .replace(/\s+/g, " ")
    .slice(0, BRIEF);
}

/** JSON to be read: in one line if it is short. */
export function pretty(value: unknown): string {
  if (typeof value === "string") return value;
  const line = JSON.stringify(value) ?? "";
  return line.length > 60 ? JSON.stringify(value, null, 2) : line;
}
