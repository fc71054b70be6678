// A schedule while it is edited: every field as the text that is in it, and back.

import { Problem } from "@/api/problem";
import type { NewSchedule, Schedule } from "@/api/types";

export interface Draft {
  name: string;
  agentType: string;
  message: string;
  kind: Schedule["kind"];
  /** As a browser's field of date and time has it: local, without a zone. */
  at: string;
  every: string;
  unit: "seconds" | "minutes" | "hours" | "days";
  cron: string;
  timezone: string;
  overlap: Schedule["overlap"];
  catchUp: Schedule["catchUp"];
}

const UNITS = { days: 86_400_000, hours: 3_600_000, minutes: 60_000, seconds: 1_000 } as const;

export function newDraft(agentType: string): Draft {
  return {
    name: "",
    agentType,
    message: "",
    kind: "interval",
    at: "",
    every: "1",
    unit: "hours",
    cron: "0 9 * * 1-5",
    timezone: "UTC",
    overlap: "skip",
    catchUp: "one",
  };
}

export function draftOf(schedule: Schedule): Draft {
  const { name, agentType, message, kind, timezone, overlap, catchUp } = schedule;
  const [every, unit] = intervalOf(schedule.everyMs ?? 3_600_000);
  return {
    name,
    agentType,
    message,
    kind,
    at: schedule.at ? localTime(schedule.at) : "",
    every,
    unit,
    cron: schedule.cron ?? "0 9 * * 1-5",
    timezone,
    overlap,
    catchUp,
  };
}

/** In the largest unit that gives a whole number. */
function intervalOf(ms: number): [string, Draft["unit"]] {
  for (const [unit, size] of Object.entries(UNITS) as [Draft["unit"], number][]) {
    if (ms % size === 0) return [String(ms / size), unit];
  }
  return [String(ms / 1_000), "seconds"];
}

export function localTime(iso: string): string {
  const at = new Date(iso);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

export function scheduleOf(draft: Draft): NewSchedule {
  const { name, agentType, message, kind, timezone, overlap, catchUp } = draft;
  const common = { name: name.trim(), agentType, message, kind, timezone, overlap, catchUp };
  switch (kind) {
    case "once": {
      const at = new Date(draft.at);
      if (Number.isNaN(at.getTime())) throw new Problem(0, "Say when it is to begin: a date and a time.");
      return { ...common, at: at.toISOString() };
    }
    case "interval": {
      const everyMs = Number(draft.every) * UNITS[draft.unit];
      if (!(everyMs > 0)) throw new Problem(0, "Say how often: a number above 0.");
      return { ...common, everyMs };
    }
    case "cron":
      if (draft.cron.trim().split(/\s+/).length !== 5) {
        throw new Problem(0, "A cron line has five fields: minute, hour, day, month, weekday; as 0 9 * * 1-5.");
      }
      return { ...common, cron: draft.cron.trim() };
  }
}

/** When it begins, in words. */
export function rhythm({ kind, at, everyMs, cron, timezone }: Schedule): string {
  if (kind === "once")
    return at ? `once, ${new Date(at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}` : "once";
  if (kind === "cron") return `${cron} (${timezone})`;
  const [every, unit] = intervalOf(everyMs ?? 0);
  return every === "1" ? `every ${unit.slice(0, -1)}` : `every ${every} ${unit}`;
}
