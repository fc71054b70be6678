// Shelves: bytes by path with a version, which outlive threads.

import { client } from "@/api/client";
import type { Problem } from "@/api/problem";

export { ABSENT, type ShelfContent } from "@/api/shelfEntries";

/** The entries that are listed at once. */
export const MOST = 1_000;

export const listShelves = (agency: string) => client.agency(agency).shelves();
export const listEntries = (agency: string, shelf: string, prefix: string) =>
  client.agency(agency).entries(shelf, prefix);
export const readEntry = (agency: string, shelf: string, entry: string) =>
  client.agency(agency).readEntry(shelf, entry);
export const writeEntry = (agency: string, shelf: string, entry: string, content: Blob, version: string) =>
  client.agency(agency).writeEntry(shelf, entry, content, version);
export const deleteEntry = (agency: string, shelf: string, entry: string, version: string) =>
  client.agency(agency).deleteEntry(shelf, entry, version);

/** Whether something else was there than expected. */
export const isConflict = (problem: Problem | null): boolean => problem?.code === "ERR_VERSION";
