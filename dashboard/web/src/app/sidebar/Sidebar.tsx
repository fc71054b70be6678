import {
  BotIcon,
  BracesIcon,
  CircleQuestionMarkIcon,
  ClockIcon,
  HouseIcon,
  InboxIcon,
  LibraryIcon,
  LogOutIcon,
  type LucideIcon,
  MoonIcon,
  PlusIcon,
  PuzzleIcon,
  SearchIcon,
  ServerIcon,
  SlidersHorizontalIcon,
  SunIcon,
} from "lucide-react";
import { useMemo, useState } from "react";
import { usePanels } from "@/api/extensions";
import { secret } from "@/api/secret";
import type { Agency } from "@/api/types";
import { AgencySwitcher } from "@/app/sidebar/AgencySwitcher";
import { NotifyButton } from "@/app/sidebar/NotifyButton";
import { SearchHits } from "@/app/sidebar/SearchHits";
import css from "@/app/sidebar/Sidebar.module.css";
import { ThreadTree } from "@/app/sidebar/ThreadTree";
import { useAgency } from "@/live/hooks";
import { Link } from "@/router/router";
import { type AgencyPage, type Route, to } from "@/router/routes";
import { number, short } from "@/text/format";
import { FILTERS, type Filter, tally } from "@/threads/threadTree";
import { IconButton } from "@/ui/IconButton";
import { toggleTheme, useTheme } from "@/ui/theme";

interface Props {
  list: readonly Agency[];
  agency: string | null;
  route: Route;
  onNewThread(): void;
  onHelp(): void;
}

export function Sidebar({ list, agency, route, onNewThread, onHelp }: Props) {
  const theme = useTheme();
  return (
    <nav className={css.side} aria-label="Agencies and threads">
      <AgencySwitcher list={list} current={agency} />
      {agency && <Threads key={agency} agency={agency} route={route} onNewThread={onNewThread} />}
      {!agency && <div className="grow" />}
      <footer className={css.foot}>
        <Link className={css.place} href={to.cluster()} aria-current={route.view === "cluster" ? "page" : undefined}>
          <ServerIcon />
          Cluster
        </Link>
        <Link className={css.place} href={to.docs()} aria-current={route.view === "docs" ? "page" : undefined}>
          <BracesIcon />
          API
        </Link>
        <span className="grow" />
        <NotifyButton />
        <IconButton icon={CircleQuestionMarkIcon} label="Keyboard shortcuts" onClick={onHelp} />
        <IconButton
          icon={theme === "dark" ? SunIcon : MoonIcon}
          label={theme === "dark" ? "Light theme" : "Dark theme"}
          onClick={toggleTheme}
        />
        {secret.get() !== null && (
          <IconButton
            icon={LogOutIcon}
            label="Sign out"
            onClick={() => {
              secret.clear();
              location.reload();
            }}
          />
        )}
      </footer>
    </nav>
  );
}

const AGENCY_PAGES: readonly { page: AgencyPage; label: string; icon: LucideIcon }[] = [
  { page: "inbox", label: "Inbox", icon: InboxIcon },
  { page: "blueprints", label: "Blueprints", icon: BotIcon },
  { page: "schedules", label: "Schedules", icon: ClockIcon },
  { page: "shelves", label: "Shelves", icon: LibraryIcon },
  { page: "settings", label: "Settings", icon: SlidersHorizontalIcon },
];

const FILTER_LABELS: Record<Filter, string> = {
  all: "All",
  running: "Running",
  waiting: "Waiting",
  ended: "Ended",
  error: "Error",
};

function Threads({ agency, route, onNewThread }: { agency: string; route: Route; onNewThread(): void }) {
  const { threads, approvals, loaded, complete } = useAgency(agency);
  const [search, setSearch] = useState("");
  const [filter, setFilter] = useState<Filter>("all");
  const counts = useMemo(() => tally(threads.values()), [threads]);
  const waiting = approvals.length;
  const { data: panels } = usePanels();
  const current = route.view === "thread" ? route.thread : null;
  const isHere = (page: string | null) =>
    page === null ? route.view === "agency" : route.view === "page" && route.page === page;
  return (
    <>
      <ul className={css.places}>
        <li>
          <Link className={css.place} href={to.agency(agency)} aria-current={isHere(null) ? "page" : undefined}>
            <HouseIcon />
            Overview
          </Link>
        </li>
        {AGENCY_PAGES.map(({ page, label, icon: Icon }) => (
          <li key={page}>
            <Link className={css.place} href={to.page(agency, page)} aria-current={isHere(page) ? "page" : undefined}>
              <Icon />
              {label}
              {page === "inbox" && waiting > 0 && (
                <span className={css.badge}>
                  {waiting}
                  <span className="unseen"> waiting</span>
                </span>
              )}
            </Link>
          </li>
        ))}
        {panels?.map(({ id, panel }) => (
          <li key={id}>
            <Link
              className={css.place}
              href={to.page(agency, "x", id)}
              aria-current={isHere("x") && route.view === "page" && route.item === id ? "page" : undefined}
            >
              <PuzzleIcon />
              {panel.title}
            </Link>
          </li>
        ))}
      </ul>
      <div className={css.tools}>
        <div className="row">
          <h2 className="title grow">
            Threads <span className="faint num">{loaded ? short(counts.all) + (complete ? "" : " …") : ""}</span>
          </h2>
          <button type="button" className="button small" onClick={onNewThread} disabled={!loaded}>
            <PlusIcon size={13} />
            New thread
          </button>
        </div>
        <div className={css.search}>
          <SearchIcon size={14} />
          <input
            type="search"
            id="thread-search"
            aria-label="Search threads"
            placeholder="Search titles and messages"
            value={search}
            onChange={(event) => setSearch(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Escape") setSearch("");
            }}
          />
        </div>
        <div className={css.filters} role="group" aria-label="Filter by status">
          {FILTERS.map((each) => (
            <button
              key={each}
              type="button"
              className={css.filter}
              aria-pressed={filter === each}
              onClick={() => setFilter(each)}
              title={`${FILTER_LABELS[each]}: ${number(counts[each])}`}
            >
              {FILTER_LABELS[each]}
              {each !== "all" && counts[each] > 0 && <span className={css.count}>{short(counts[each])}</span>}
            </button>
          ))}
        </div>
      </div>
      {loaded && <SearchHits agency={agency} search={search} />}
      {threads.size > 0 ? (
        <ThreadTree agency={agency} threads={threads} current={current} search={search} filter={filter} />
      ) : (
        <p className={`${css.none} faint grow`}>{loaded ? "No threads yet." : ""}</p>
      )}
    </>
  );
}
