import { MenuIcon, XIcon } from "lucide-react";
import { Suspense, useEffect, useMemo, useRef, useState } from "react";
import { agencies } from "@/agencies/agencyList";
import { ConnectionNote } from "@/app/ConnectionNote";
import { useNotifications } from "@/app/notifications";
import { pageFor } from "@/app/pages";
import css from "@/app/Shell.module.css";
import { Shortcuts, useShortcuts } from "@/app/shortcuts";
import { Sidebar } from "@/app/sidebar/Sidebar";
import { useAgency } from "@/live/hooks";
import { useStore } from "@/live/store";
import { navigate, useRoute } from "@/router/router";
import { type Route, to } from "@/router/routes";
import { NewThreadDialog } from "@/threads/NewThread";
import { Boundary } from "@/ui/Boundary";
import { Loading } from "@/ui/Empty";
import { IconButton } from "@/ui/IconButton";

/** Sidebar and page. On a phone the sidebar lies over the page when it is wanted. */
export function Shell({ onRefused }: { onRefused(): void }) {
  const route = useRoute();
  const { list } = useStore(agencies);
  const named = "agency" in route ? route.agency : null;
  const last = useRef<string | null>(null);
  last.current = named ?? last.current;
  // What is not about an agency leaves the last one beside it.
  const agency = named ?? (list?.find((each) => each.id === last.current) ?? list?.[0])?.id ?? null;
  const [drawer, setDrawer] = useState(false);
  const [dialog, setDialog] = useState<"thread" | "help" | null>(null);
  const address = JSON.stringify(route);

  // biome-ignore lint/correctness/useExhaustiveDependencies: whenever the address changes
  useEffect(() => setDrawer(false), [address]);

  useEffect(() => {
    const first = list?.find((each) => !each.damaged) ?? list?.[0];
    if (route.view === "start" && first) navigate(to.agency(first.id), { replace: true });
  }, [route, list]);

  const keys = useMemo(
    () => ({
      "/": () => {
        setDrawer(true);
        setTimeout(() => document.getElementById("thread-search")?.focus());
      },
      "?": () => setDialog("help"),
      m: () => document.getElementById("composer")?.focus(),
      w: () => document.querySelector<HTMLElement>("[data-waiting]")?.focus(),
      ...(agency
        ? { n: () => setDialog("thread"), i: () => navigate(to.page(agency, "inbox")) }
        : ({} as Record<string, never>)),
    }),
    [agency],
  );
  useShortcuts(keys);

  return (
    <div className={css.shell} data-drawer={drawer || undefined}>
      <button type="button" className={css.skip} onClick={() => document.getElementById("main")?.focus()}>
        Skip to the page
      </button>
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: on a phone, beside the drawer; keys have its own button */}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: as above */}
      <div className={css.veil} onClick={() => setDrawer(false)} />
      <div className={css.side}>
        <Sidebar
          list={list ?? []}
          agency={agency}
          route={route}
          onNewThread={() => setDialog("thread")}
          onHelp={() => setDialog("help")}
        />
      </div>
      <div className={css.body}>
        <div className={css.phone}>
          <IconButton
            icon={drawer ? XIcon : MenuIcon}
            label={drawer ? "Close the menu" : "Agencies and threads"}
            aria-expanded={drawer}
            onClick={() => setDrawer(!drawer)}
          />
        </div>
        <ConnectionNote agency={agency} thread={route.view === "thread" ? route.thread : null} />
        <main className={css.main} id="main" tabIndex={-1}>
          <Boundary key={"page" in route ? route.page : route.view}>
            <Suspense fallback={<Loading />}>{pageFor(route, list, () => setDialog("thread"))}</Suspense>
          </Boundary>
        </main>
      </div>
      {agency && <AgencyWatch key={agency} agency={agency} route={route} onRefused={onRefused} />}
      {dialog === "thread" && agency && <NewThreadDialog agency={agency} onClose={() => setDialog(null)} />}
      {dialog === "help" && <Shortcuts onClose={() => setDialog(null)} />}
    </div>
  );
}

/** What goes on with an agency wherever one is: the tab's title, notifications, and a key that was revoked. */
function AgencyWatch({ agency, route, onRefused }: { agency: string; route: Route; onRefused(): void }) {
  const { approvals, loaded, problem } = useAgency(agency);
  const { list } = useStore(agencies);
  const name = list?.find((each) => each.id === agency)?.name;
  const waiting = approvals.length;
  useNotifications(agency, approvals, loaded);
  useEffect(() => {
    document.title = `${waiting ? `(${waiting}) ` : ""}${name ? `${name} · ` : ""}Agency`;
    return () => {
      document.title = "Agency";
    };
  }, [waiting, name]);
  const refused = problem?.status === 401 && "agency" in route;
  useEffect(() => {
    if (refused) onRefused();
  }, [refused, onRefused]);
  return null;
}
