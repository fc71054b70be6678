// Schedules: threads that begin by themselves.

import { client, ifThere } from "@/api/client";
import type { NewSchedule, ScheduleChange } from "@/api/types";

/** Null where the gateway has no schedules. */
export const listSchedules = (agency: string) => ifThere(client.agency(agency).schedules());
export const createSchedule = (agency: string, body: NewSchedule) => client.agency(agency).createSchedule(body);
export const changeSchedule = (agency: string, schedule: string, body: ScheduleChange) =>
  client.agency(agency).changeSchedule(schedule, body);
export const deleteSchedule = (agency: string, schedule: string) => client.agency(agency).deleteSchedule(schedule);
export const runSchedule = (agency: string, schedule: string) => client.agency(agency).runSchedule(schedule);
export const listScheduleRuns = (agency: string, schedule: string) => client.agency(agency).scheduleRuns(schedule);
