import { describe, expect, it } from "vitest";
import type { Schedule } from "@/api/types";
import { draftOf, localTime, newDraft, rhythm, scheduleOf } from "@/views/schedules/draft";

const schedule: Schedule = {
  id: "s",
  name: "report",
  agentType: "clerk",
  message: "Write it.",
  kind: "interval",
  at: null,
  everyMs: 5_400_000,
  cron: null,
  limits: null,
  model: null,
  params: null,
  tools: null,
  options: {},
  timezone: "UTC",
  overlap: "skip",
  catchUp: "one",
  status: "active",
  nextAt: null,
  createdAt: "",
  updatedAt: "",
};

describe("a schedule", () => {
  it("is said in the largest unit that fits", () => {
    expect(rhythm(schedule)).toBe("every 90 minutes");
    expect(rhythm({ ...schedule, everyMs: 86_400_000 })).toBe("every day");
    expect(rhythm({ ...schedule, kind: "cron", cron: "0 9 * * 1-5" })).toBe("0 9 * * 1-5 (UTC)");
  });

  it("comes back as it was", () => {
    expect(scheduleOf(draftOf(schedule))).toMatchObject({ everyMs: 5_400_000, kind: "interval", name: "report" });
    const at = "2026-05-01T10:30:00.000Z";
    expect(scheduleOf(draftOf({ ...schedule, kind: "once", at }))).toMatchObject({ at });
    expect(new Date(localTime(at)).toISOString()).toBe(at);
  });

  it("says what is missing", () => {
    expect(() => scheduleOf({ ...newDraft("clerk"), kind: "once" })).toThrow("a date and a time");
    expect(() => scheduleOf({ ...newDraft("clerk"), every: "0" })).toThrow("above 0");
    expect(() => scheduleOf({ ...newDraft("clerk"), kind: "cron", cron: "daily" })).toThrow("five fields");
  });
});
