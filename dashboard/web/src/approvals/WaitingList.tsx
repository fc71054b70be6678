import { useAction } from "@/api/hooks";
import { Once } from "@/api/once";
import { Problem } from "@/api/problem";
import { decide, decideAll } from "@/api/threads";
import type { RunEnvelope } from "@/api/types";
import { CallCard } from "@/approvals/CallCard";
import { LimitCard } from "@/approvals/LimitCard";
import css from "@/approvals/WaitingList.module.css";
import { type About, byThread, type Waiting, type WaitingCall } from "@/approvals/waiting";
import { Link } from "@/router/router";
import { to } from "@/router/routes";
import { count } from "@/text/format";
import { Refusal } from "@/ui/Refusal";

interface Props {
  agency: string;
  waiting: Waiting;
  /** The thread whose page this is, if it is one's. */
  here: string | null;
  envelope: RunEnvelope | null;
  onDecided(threadId: string): void;
}

/** Everything that waits, with a decision for each, or one for all. */
export function WaitingList({ agency, waiting, here, envelope, onDecided }: Props) {
  const { calls, limits } = waiting;
  const toApprove = calls.filter(({ call }) => call.kind !== "in_doubt");
  const all = useAction(async () => {
    for (const threadId of await approveAll(agency, toApprove)) onDecided(threadId);
  });
  return (
    <>
      {calls.length > 0 && (
        <div className={css.head}>
          <h2 aria-live="polite">{count(calls.length, "call waits", "calls wait")} for you</h2>
          {toApprove.length > 1 && (
            <button
              type="button"
              className="button small"
              title={
                toApprove.length < calls.length ? "Calls in doubt go on waiting: decide on each of them." : undefined
              }
              disabled={all.busy}
              onClick={() => void all.run()}
            >
              {toApprove.length < calls.length
                ? `Approve the ${toApprove.length} that are not in doubt`
                : "Approve all"}
            </button>
          )}
        </div>
      )}
      <Refusal problem={all.problem} />
      <ul className={css.list}>
        {calls.map((asked) => (
          <li key={asked.key}>
            {asked.about && <Concerns agency={agency} threadId={asked.threadId} about={asked.about} />}
            <CallCard agency={agency} asked={asked} named={asked.threadId !== here} onDecided={onDecided} />
          </li>
        ))}
        {limits.map((exhausted) => (
          <li key={`${exhausted.key} ${exhausted.code}`}>
            {exhausted.about && <Concerns agency={agency} threadId={exhausted.threadId} about={exhausted.about} />}
            <LimitCard
              agency={agency}
              exhausted={exhausted}
              envelope={exhausted.threadId === here ? envelope : null}
              named={exhausted.threadId !== here}
              onDecided={onDecided}
            />
          </li>
        ))}
      </ul>
    </>
  );
}

/** The thread that something belongs to: its title, and what its user asked for if that says more. */
function Concerns({ agency, threadId, about: { title, request } }: { agency: string; threadId: string; about: About }) {
  if (!title && !request) return null;
  const asked = request.replace(/\s+/g, " ").trim();
  return (
    <div className={css.about}>
      <Link className="cut" href={to.thread(agency, threadId)}>
        {title ?? threadId}
      </Link>
      {asked && asked !== title && <blockquote>{asked}</blockquote>}
    </div>
  );
}

/** Approve calls of several threads: in one request, where the gateway can name calls exactly. */
async function approveAll(agency: string, calls: readonly WaitingCall[]): Promise<string[]> {
  const once = new Once();
  const threads = byThread(calls, { decision: "approve" });
  if (calls.every(({ call }) => call.approvalId)) {
    const { refused } = await decideAll(agency, once.body({ decisions: Object.assign({}, ...threads.values()) }));
    const [first] = refused;
    if (first) throw new Problem(409, first.message, first.code);
  } else {
    for (const [threadId, decisions] of threads) await decide(agency, threadId, new Once().body({ decisions }));
  }
  return [...threads.keys()];
}
