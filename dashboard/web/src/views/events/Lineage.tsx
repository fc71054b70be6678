import { GitForkIcon } from "lucide-react";
import { useAgency } from "@/live/hooks";
import { Link } from "@/router/router";
import { to } from "@/router/routes";
import { ago } from "@/text/format";
import css from "@/views/events/Lineage.module.css";

/** Which thread this one was forked from, and which were forked from it; nothing if there are none. */
export function Lineage({ agency, thread }: { agency: string; thread: string }) {
  const { threads } = useAgency(agency);
  const own = threads.get(thread)?.forkedFrom ?? null;
  const forks = [...threads.values()].filter((each) => each.forkedFrom?.threadId === thread);
  if (own === null && !forks.length) return null;
  return (
    <p className={css.lineage} aria-label="Lineage" role="note">
      <GitForkIcon size={14} />
      {own && (
        <span>
          forked from{" "}
          <Link href={to.thread(agency, own.threadId)}>{nameOf(threads.get(own.threadId), own.threadId)}</Link> after
          event {own.seq}
        </span>
      )}
      {forks.length > 0 && (
        <span>
          forks:{" "}
          {forks.map((each, at) => (
            <span key={each.id}>
              {at > 0 && ", "}
              <Link href={to.thread(agency, each.id)} title={each.id}>
                after event {each.forkedFrom?.seq}
              </Link>{" "}
              <span className="faint">{ago(each.createdAt)}</span>
            </span>
          ))}
        </span>
      )}
    </p>
  );
}

function nameOf(thread: { agentType: string; title: string | null } | undefined, id: string): string {
  return thread ? `${thread.agentType}: ${thread.title ?? id}` : id;
}
