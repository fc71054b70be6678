// What the dashboard calls things: states, times, amounts.

const PAUSED = {
  hitl: ["waiting", "waits for you"],
  subagent: ["subagents", "waits for subagents"],
  exhausted: ["waiting", "limit reached"],
};

/** A run's status as `[kind, words]`; the kind chooses the colour. */
export function statusOf({ status, reason }) {
  return status === "paused" ? (PAUSED[reason] ?? ["waiting", "paused"]) : [status, status];
}

export const isActive = (status) => status === "running" || status === "paused";

export function clock(ts) {
  return new Date(ts).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

/** How long ago, in one short word. */
export function ago(ts, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(ts)) / 1000);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

export function duration(ms) {
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 60_000) return `${Math.round(ms / 1000)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A cost in US dollars, to what matters of it; null is unknown. */
export function money(usd) {
  if (usd === null) return "cost unknown";
  return usd >= 1 || usd === 0 ? `$${usd.toFixed(2)}` : `$${Number(usd.toPrecision(2))}`;
}

export const number = (n) => n.toLocaleString("en");

export function count(n, one, many = `${one}s`) {
  return `${number(n)} ${n === 1 ? one : many}`;
}

/** Arguments in one line, to be recognised by. */
export function brief(args) {
  if (args === null || typeof args !== "object") return String(args);
  return Object.values(args)
    .map((value) => (typeof value === "string" ? value : JSON.stringify(value)))
    .join(" · ")
    .replace(/\s+/g, " ")
    .slice(0, 200);
}

/** JSON to be read: in one line if it is short. */
export function pretty(value) {
  if (typeof value === "string") return value;
  const line = JSON.stringify(value);
  return line.length > 60 ? JSON.stringify(value, null, 2) : line;
}
