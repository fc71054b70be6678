import { useMemo } from "react";
import css from "@/approvals/WaitingBanner.module.css";
import { WaitingList } from "@/approvals/WaitingList";
import { waitingAt } from "@/approvals/waiting";
import { useAgency, useAgencyStore, useThread, useThreadStore } from "@/live/hooks";

/** What the open thread and those below it wait for; `low`, where something else needs the height. */
export function WaitingBanner({ agency, thread, low = false }: { agency: string; thread: string; low?: boolean }) {
  const agencyStore = useAgencyStore(agency);
  const threadStore = useThreadStore(agency, thread);
  const { approvals, threads } = useAgency(agency);
  const { state, envelope } = useThread(agency, thread);
  const waiting = useMemo(
    () =>
      waitingAt(
        { threadId: thread, agentType: state?.agentType ?? "", envelope, subagents: state?.subagents ?? [] },
        approvals,
        threads,
      ),
    [thread, state, envelope, approvals, threads],
  );
  const isWaiting = waiting.calls.length + waiting.limits.length > 0;
  return (
    <section
      className={`${css.banner} scroll`}
      aria-label="Waiting for you"
      data-low={low || undefined}
      hidden={!isWaiting}
    >
      <WaitingList
        agency={agency}
        waiting={waiting}
        here={thread}
        envelope={envelope}
        onDecided={() => {
          agencyStore.reloadApprovals();
          threadStore.refresh();
        }}
      />
    </section>
  );
}
