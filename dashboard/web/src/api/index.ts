// What the package `client/` has: everything of this folder that is not the page's own.

export { AgencyClient, AgencyHandle, type Following, ThreadHandle, type ThreadQuery } from "./agencyClient";
export type { Socket } from "./connection";
export { newKey } from "./once";
export { Problem } from "./problem";
export { ABSENT, type ShelfContent } from "./shelfEntries";
export { Transport, type TransportOptions } from "./transport";
export type * from "./types";
