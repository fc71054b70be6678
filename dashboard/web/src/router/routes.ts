// Every view has an address:
//
//   /                                the first agency
//   /a/{agency}                      its overview
//   /a/{agency}/inbox                what waits for a person
//   /a/{agency}/blueprints[/{name}]  its agents
//   /a/{agency}/schedules[/{id}]     what begins by itself
//   /a/{agency}/shelves[/{shelf}]    what outlives its threads
//   /a/{agency}/x/{name}.{panel}     a panel that a middleware brings
//   /a/{agency}/settings             name, usage, budget, policy, keys
//   /a/{agency}/t/{thread}[/{tab}]   a thread; without a tab, its chat
//   /a/{agency}/compare?a=…&b=…      two threads side by side
//   /docs                            the API
//   /cluster                         hosts, and who lives where
//
// All of them are below the path at which the gateway is mounted. What a view has open besides (an event, a file, a search) is in the query, see `useQuery`.

import { BASE } from "@/router/base";

export const TABS = ["chat", "graph", "timeline", "files", "events", "state"] as const;
export type Tab = (typeof TABS)[number];

const PAGES = ["inbox", "blueprints", "schedules", "shelves", "x", "settings", "compare"] as const;
export type AgencyPage = (typeof PAGES)[number];

export type Route =
  | { view: "start" }
  | { view: "cluster" }
  | { view: "docs" }
  | { view: "agency"; agency: string }
  | { view: "page"; agency: string; page: AgencyPage; item: string | null }
  | { view: "thread"; agency: string; thread: string; tab: Tab }
  | { view: "lost" };

export function parse(pathname: string): Route {
  const own = pathname.startsWith(`${BASE}/`) ? pathname.slice(BASE.length) : pathname;
  const parts = own.split("/").filter(Boolean).map(decoded);
  const [area, agency, kind, item, tab] = parts;
  if (area === undefined) return { view: "start" };
  if (area === "cluster" && parts.length === 1) return { view: "cluster" };
  if (area === "docs" && parts.length === 1) return { view: "docs" };
  if (area !== "a" || agency === undefined) return { view: "lost" };
  if (kind === undefined) return { view: "agency", agency };
  if (kind === "t" && item !== undefined && parts.length <= 5) {
    const wanted = TABS.find((each) => each === (tab ?? "chat"));
    return wanted ? { view: "thread", agency, thread: item, tab: wanted } : { view: "lost" };
  }
  const page = PAGES.find((each) => each === kind);
  return page && parts.length <= 4 ? { view: "page", agency, page, item: item ?? null } : { view: "lost" };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const joined = (...parts: string[]) => `${BASE}/${parts.map(encodeURIComponent).join("/")}`;

/** Addresses, for links. */
export const to = {
  start: () => `${BASE}/`,
  cluster: () => joined("cluster"),
  docs: () => joined("docs"),
  agency: (agency: string) => joined("a", agency),
  page: (agency: string, page: AgencyPage, item?: string | null) => joined("a", agency, page, ...(item ? [item] : [])),
  compare: (agency: string, a: string, b?: string | null) =>
    `${joined("a", agency, "compare")}?${new URLSearchParams({ a, ...(b ? { b } : {}) })}`,
  thread: (agency: string, thread: string, tab: Tab = "chat") =>
    joined("a", agency, "t", thread, ...(tab === "chat" ? [] : [tab])),
};
