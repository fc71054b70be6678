// Addresses and versions of entries of shelves. A version travels as an ETag, conditions as HTTP's own.

import { Problem } from "./problem";
import { path } from "./transport";

/** The version of an entry that is not there yet. */
export const ABSENT = "absent";

export interface ShelfContent {
  readonly blob: Blob;
  readonly version: string;
}

export function versionHeaders(version: string): Record<string, string> {
  return version === ABSENT ? { "If-None-Match": "*" } : { "If-Match": `"${version}"` };
}

/** The gateway checks paths, too, but a browser would turn one with `..` into another address. */
export function shelfAddress(agency: string, shelf: string, entry: string): string {
  const parts = entry.split("/");
  if (parts.some((part) => part === "" || part === "." || part === "..")) {
    throw new Problem(400, "A path is like notes/today.md: relative, and without “.”, “..” and empty parts.");
  }
  if (!/^[\w-]{1,64}$/.test(shelf)) {
    throw new Problem(400, "The name of a shelf has 1 to 64 letters, digits, “-” and “_”.");
  }
  return `${path`/agency/${agency}/shelf/${shelf}`}/${parts.map(encodeURIComponent).join("/")}`;
}
