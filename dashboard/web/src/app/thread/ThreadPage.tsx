import { PanelRightIcon } from "lucide-react";
import { Suspense } from "react";
import { ThreadHead } from "@/app/thread/ThreadHead";
import css from "@/app/thread/ThreadPage.module.css";
import { WaitingBanner } from "@/approvals/WaitingBanner";
import { useThread } from "@/live/hooks";
import { Link, useQuery } from "@/router/router";
import { TABS, type Tab, to } from "@/router/routes";
import { Boundary } from "@/ui/Boundary";
import { Empty, Loading } from "@/ui/Empty";
import { IconButton } from "@/ui/IconButton";
import { TAB_VIEWS } from "@/views/tabs";

interface Props {
  agency: string;
  thread: string;
  tab: Tab;
}

/** A thread: who it is and what it does, its views as tabs, and under each what it waits for. */
export default function ThreadPage({ agency, thread, tab }: Props) {
  const { connection, problem } = useThread(agency, thread);
  const [panel, setPanel] = useQuery("panel");
  if (connection === "ended" && problem && problem.status !== 401) {
    return (
      <Empty title={problem.message} alert>
        <p>Choose another one on the left.</p>
      </Empty>
    );
  }
  const { View } = TAB_VIEWS[tab];
  return (
    <>
      <ThreadHead key={thread} agency={agency} thread={thread} />
      <div className={css.bar}>
        <nav className={css.tabs} aria-label="Views of the thread">
          {TABS.map((each) => (
            <Link
              key={each}
              className={css.tab}
              href={to.thread(agency, thread, each)}
              aria-current={each === tab ? "page" : undefined}
            >
              {TAB_VIEWS[each].label}
            </Link>
          ))}
        </nav>
        {tab === "chat" && (
          <IconButton
            icon={PanelRightIcon}
            label="Plan, run and files"
            className={css.panel ?? ""}
            aria-pressed={panel !== null}
            onClick={() => setPanel(panel === null ? "1" : null)}
          />
        )}
      </div>
      <div className={css.view}>
        <Boundary key={`${thread} ${tab}`}>
          <Suspense fallback={<Loading />}>
            <View key={thread} agency={agency} thread={thread} />
          </Suspense>
        </Boundary>
      </div>
      {tab !== "chat" && <WaitingBanner key={thread} agency={agency} thread={thread} low />}
    </>
  );
}
