// Schedules: threads that begin by themselves.

import { ifThere, path, request } from "@/api/client";
import type { NewSchedule, Schedule, ScheduleChange, ScheduleRun } from "@/api/types";

/** Null where the gateway has no schedules. */
export const listSchedules = async (agency: string): Promise<Schedule[] | null> => {
  const page = await ifThere(
    request<{ schedules: Schedule[] }>(path`/agency/${agency}/schedules`, { query: { limit: 500 } }),
  );
  return page?.schedules ?? null;
};

export const createSchedule = (agency: string, body: NewSchedule) =>
  request<Schedule>(path`/agency/${agency}/schedules`, { method: "POST", body });

export const changeSchedule = (agency: string, schedule: string, body: ScheduleChange) =>
  request<Schedule>(path`/agency/${agency}/schedules/${schedule}`, { method: "PATCH", body });

export const deleteSchedule = (agency: string, schedule: string) =>
  request<void>(path`/agency/${agency}/schedules/${schedule}`, { method: "DELETE" });

export const runSchedule = (agency: string, schedule: string) =>
  request<ScheduleRun>(path`/agency/${agency}/schedules/${schedule}/run`, { method: "POST", body: {} });

export const listScheduleRuns = async (agency: string, schedule: string): Promise<ScheduleRun[]> =>
  (
    await request<{ runs: ScheduleRun[] }>(path`/agency/${agency}/schedules/${schedule}/runs`, {
      query: { limit: 50 },
    })
  ).runs;
