import { useMemo, useState } from "react";
import css from "@/approvals/WaitingBanner.module.css";
import { WaitingList } from "@/approvals/WaitingList";
import { waitingAt } from "@/approvals/waiting";
import { useAgency, useAgencyStore, useThread, useThreadStore } from "@/live/hooks";
import { count } from "@/text/format";

/** What the open thread and those below it wait for; `low`, where something else needs the height. On a phone it folds
 * into a line, and begins so where it is low. */
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
  const many = waiting.calls.length + waiting.limits.length;
  const [open, setOpen] = useState(!low);
  return (
    <section
      className={`${css.banner} scroll`}
      aria-label="Waiting for you"
      data-low={low || undefined}
      data-open={open || undefined}
      hidden={many === 0}
    >
      <div className={css.fold}>
        <span>{count(many, "thing waits", "things wait")} for you</span>
        <button type="button" className="button small" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "Hide" : "Decide"}
        </button>
      </div>
      <div className={css.list}>
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
      </div>
    </section>
  );
}
