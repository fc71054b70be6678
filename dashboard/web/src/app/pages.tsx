// Which page belongs to which address; each is loaded when it is first opened.

import { lazy, type ReactNode, useState } from "react";
import { NewAgency } from "@/agencies/agencyDialogs";
import type { Agency } from "@/api/types";
import type { Route } from "@/router/routes";
import { Empty, Loading } from "@/ui/Empty";

const HomeView = lazy(() => import("@/views/home/HomeView"));
const ThreadPage = lazy(() => import("@/app/thread/ThreadPage"));
const InboxView = lazy(() => import("@/views/inbox/InboxView"));
const BlueprintsView = lazy(() => import("@/views/blueprints/BlueprintsView"));
const SchedulesView = lazy(() => import("@/views/schedules/SchedulesView"));
const ShelvesView = lazy(() => import("@/views/shelves/ShelvesView"));
const PanelView = lazy(() => import("@/views/panels/PanelView"));
const SettingsView = lazy(() => import("@/views/settings/SettingsView"));
const ApiView = lazy(() => import("@/views/api/ApiView"));
const CompareView = lazy(() => import("@/views/compare/CompareView"));
const ClusterView = lazy(() => import("@/views/cluster/ClusterView"));

export function pageFor(route: Route, list: readonly Agency[] | null, newThread: () => void): ReactNode {
  switch (route.view) {
    case "start":
      return list === null ? <Loading /> : list.length === 0 ? <Welcome /> : null;
    case "cluster":
      return <ClusterView />;
    case "docs":
      return <ApiView />;
    case "agency":
      return <HomeView key={route.agency} agency={route.agency} onNewThread={newThread} />;
    case "thread":
      return <ThreadPage agency={route.agency} thread={route.thread} tab={route.tab} />;
    case "page": {
      const { agency, page, item } = route;
      if (page === "compare") return <CompareView key={agency} agency={agency} />;
      if (page === "inbox") return <InboxView key={agency} agency={agency} />;
      if (page === "blueprints") return <BlueprintsView key={agency} agency={agency} name={item} />;
      if (page === "schedules") return <SchedulesView key={agency} agency={agency} schedule={item} />;
      if (page === "shelves") return <ShelvesView key={agency} agency={agency} shelf={item} />;
      if (page === "x") return <PanelView key={`${agency} ${item}`} agency={agency} name={item} />;
      return <SettingsView key={agency} agency={agency} />;
    }
    default:
      return <Empty title="There is nothing at this address.">Choose something on the left.</Empty>;
  }
}

function Welcome() {
  const [open, setOpen] = useState(false);
  return (
    <Empty title="Welcome.">
      <p>Create an agency to begin: it holds your threads.</p>
      <button type="button" className="button primary" onClick={() => setOpen(true)}>
        New agency
      </button>
      {open && <NewAgency onClose={() => setOpen(false)} />}
    </Empty>
  );
}
