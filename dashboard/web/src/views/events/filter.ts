// Which events a person wants to see.

import type { EventType, ThreadEvent } from "@/api/types";

/** What events are about, in the order in which a person looks for it. */
export const AREAS = ["run", "model", "tool", "hitl", "subagent", "middleware", "other"] as const;
export type Area = (typeof AREAS)[number];

const OF: Record<string, Area> = {
  run: "run",
  agent: "run",
  runtime: "run",
  capabilities: "run",
  model: "model",
  tool: "tool",
  hitl: "hitl",
  subagent: "subagent",
  middleware: "middleware",
  state: "run",
};

export const AREA_WORDS: Record<Area, string> = {
  run: "Runs",
  model: "Models",
  tool: "Tools",
  hitl: "Approvals",
  subagent: "Children",
  middleware: "Middleware",
  other: "Other",
};

export function areaOf(type: EventType): Area {
  return OF[type.split(".")[0] ?? ""] ?? "other";
}

export interface Filter {
  /** Words that an event must hold: its number, type, time or data. */
  readonly text: string;
  /** Areas that are left out. */
  readonly without: ReadonlySet<Area>;
}

export function matching(events: readonly ThreadEvent[], { text, without }: Filter): readonly ThreadEvent[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length && !without.size) return events;
  return events.filter((event) => {
    if (without.has(areaOf(event.type))) return false;
    if (!words.length) return true;
    const said = `${event.seq} ${event.type} ${event.ts} ${JSON.stringify(event.data)}`.toLowerCase();
    return words.every((word) => said.includes(word));
  });
}

/** The time of an event, to the millisecond. */
export function precise(ts: string): string {
  const parts = { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 } as const;
  return new Date(ts).toLocaleTimeString([], { ...parts, hourCycle: "h23" });
}

/** The data of an event in one line, without the run, which a column of its own has. */
export function summary({ data }: ThreadEvent): string {
  const { runId: _, ...rest } = data;
  const said = Object.entries(rest).map(([name, value]) => {
    const shown = typeof value === "string" ? value : JSON.stringify(value);
    return `${name}: ${shown}`;
  });
  return said.join(" · ").replace(/\s+/g, " ").slice(0, 300);
}
