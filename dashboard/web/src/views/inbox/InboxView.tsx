import { useMemo } from "react";
import { WaitingList } from "@/approvals/WaitingList";
import { inInbox } from "@/approvals/waiting";
import { useAgency, useAgencyStore } from "@/live/hooks";
import { Empty, Loading } from "@/ui/Empty";
import { PageHead } from "@/ui/PageHead";

/** Everything in an agency that waits for a person. */
export default function InboxView({ agency }: { agency: string }) {
  const store = useAgencyStore(agency);
  const { approvals, loaded, connection, problem } = useAgency(agency);
  const waiting = useMemo(() => inInbox(approvals), [approvals]);
  const isEmpty = waiting.calls.length + waiting.limits.length === 0;
  return (
    <>
      <PageHead title="Inbox" />
      <section className="page scroll" aria-label="Inbox">
        {connection === "ended" && problem ? (
          <Empty title={problem.message} alert>
            Choose another one on the left.
          </Empty>
        ) : !loaded ? (
          <Loading />
        ) : isEmpty ? (
          <Empty title="Nothing waits for you.">
            <p>Calls that need an approval, and runs that have used up a limit, come here from all threads.</p>
          </Empty>
        ) : (
          <WaitingList
            agency={agency}
            waiting={waiting}
            here={null}
            envelope={null}
            onDecided={() => store.reloadApprovals()}
          />
        )}
      </section>
    </>
  );
}
