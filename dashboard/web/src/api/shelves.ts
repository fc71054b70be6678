// Shelves: bytes by path with a version, which outlive threads. A version travels as an ETag, conditions as HTTP's own.

import { path, request, send } from "@/api/client";
import { Problem } from "@/api/problem";
import type { ShelfEntry, ShelfInfo } from "@/api/types";

/** The entries that are listed at once. */
export const MOST = 1_000;

/** The version of an entry that is not there yet. */
export const ABSENT = "absent";

export interface ShelfContent {
  readonly blob: Blob;
  readonly version: string;
}

export const listShelves = async (agency: string): Promise<ShelfInfo[]> =>
  (await request<{ shelves: ShelfInfo[] }>(path`/agency/${agency}/shelf`)).shelves;

/** The first entries whose paths begin so; `next` is null if these are all. */
export const listEntries = (agency: string, shelf: string, prefix: string) =>
  request<{ entries: ShelfEntry[]; next: string | null }>(path`/agency/${agency}/shelf/${shelf}`, {
    query: { prefix, limit: MOST },
  });

export const readEntry = async (agency: string, shelf: string, entry: string): Promise<ShelfContent> => {
  const answer = await send(address(agency, shelf, entry));
  return { blob: await answer.blob(), version: (answer.headers.get("ETag") ?? "").replaceAll('"', "") };
};

/** Put an entry under a path, only if it has this version; else a `Problem` that is a conflict. */
export const writeEntry = async (
  agency: string,
  shelf: string,
  entry: string,
  content: Blob,
  version: string,
): Promise<ShelfEntry> => {
  const headers = { ...condition(version), "Content-Type": "application/octet-stream" };
  const answer = await send(address(agency, shelf, entry), { method: "PUT", body: content, headers });
  return (await answer.json()) as ShelfEntry;
};

export const deleteEntry = async (agency: string, shelf: string, entry: string, version: string): Promise<void> => {
  await send(address(agency, shelf, entry), { method: "DELETE", headers: condition(version) });
};

/** Whether something else was there than expected. */
export const isConflict = (problem: Problem | null): boolean => problem?.code === "ERR_VERSION";

function condition(version: string): Record<string, string> {
  return version === ABSENT ? { "If-None-Match": "*" } : { "If-Match": `"${version}"` };
}

/** The gateway checks paths, too, but a browser would turn one with `..` into another address. */
function address(agency: string, shelf: string, entry: string): string {
  const parts = entry.split("/");
  if (parts.some((part) => part === "" || part === "." || part === "..")) {
    throw new Problem(400, "A path is like notes/today.md: relative, and without “.”, “..” and empty parts.");
  }
  if (!/^[\w-]{1,64}$/.test(shelf)) {
    throw new Problem(400, "The name of a shelf has 1 to 64 letters, digits, “-” and “_”.");
  }
  return `${path`/agency/${agency}/shelf/${shelf}`}/${parts.map(encodeURIComponent).join("/")}`;
}
