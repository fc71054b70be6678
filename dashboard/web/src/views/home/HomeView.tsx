import { useMemo } from "react";
import { useAgency } from "@/live/hooks";
import { Link } from "@/router/router";
import { to } from "@/router/routes";
import { ago, count, money, short, total } from "@/text/format";
import { NewThreadForm } from "@/threads/NewThread";
import { tally } from "@/threads/threadTree";
import { Empty, Loading } from "@/ui/Empty";
import { PageHead } from "@/ui/PageHead";
import { Status } from "@/ui/Status";
import { useNow } from "@/ui/useNow";
import css from "@/views/home/HomeView.module.css";
import { StatisticsSection } from "@/views/home/StatisticsSection";

const RECENT = 8;

/** An agency at a glance: what goes on, what waits, and the way to begin something. */
export default function HomeView({ agency, onNewThread }: { agency: string; onNewThread(): void }) {
  const { threads, approvals, loaded, connection, problem } = useAgency(agency);
  const now = useNow(60_000);
  const counts = useMemo(() => tally(threads.values()), [threads]);
  const recent = useMemo(
    () =>
      [...threads.values()]
        .filter((each) => each.parent === null)
        .sort((a, b) => (a.updatedAt < b.updatedAt ? 1 : -1))
        .slice(0, RECENT),
    [threads],
  );
  const spent = useMemo(() => {
    const roots = [...threads.values()].filter((each) => each.parent === null);
    return {
      tokens: roots.reduce((sum, each) => sum + total(each.tokensUsed), 0),
      cost: roots.reduce((sum, each) => sum + (each.costUsd ?? 0), 0),
    };
  }, [threads]);

  if (connection === "ended" && problem) {
    return (
      <Empty title={problem.message} alert>
        Choose another one on the left.
      </Empty>
    );
  }
  if (!loaded) return <Loading />;
  return (
    <>
      <PageHead title="Overview" />
      <div className={`page scroll ${css.page}`}>
        <div className={css.figures}>
          <Figure label="running" value={short(counts.running)} tone={counts.running ? "running" : undefined} />
          <Figure
            label="waiting for you"
            value={short(approvals.length)}
            tone={approvals.length ? "wait" : undefined}
            href={to.page(agency, "inbox")}
          />
          <Figure label="failed" value={short(counts.error)} tone={counts.error ? "bad" : undefined} />
          <Figure label={counts.all === 1 ? "thread" : "threads"} value={short(counts.all)} />
          <Figure label="tokens" value={short(spent.tokens)} href={to.page(agency, "settings")} />
          <Figure label="spent" value={money(spent.cost)} href={to.page(agency, "settings")} />
        </div>
        <StatisticsSection agency={agency} />
        <div className={css.columns}>
          <section className="card" aria-labelledby="start-title">
            <h2 id="start-title" className={css.heading}>
              Start a thread
            </h2>
            <NewThreadForm agency={agency} />
          </section>
          <section aria-labelledby="recent-title">
            <h2 id="recent-title" className={css.heading}>
              Recent
            </h2>
            {recent.length === 0 && (
              <Empty title="Nothing here yet.">
                <p>Start a thread to talk to an agent.</p>
                <button type="button" className="button" onClick={onNewThread}>
                  New thread
                </button>
              </Empty>
            )}
            <ul className={css.recent}>
              {recent.map((thread) => (
                <li key={thread.id}>
                  <Link href={to.thread(agency, thread.id)}>
                    <span className={css.first}>
                      <strong>{thread.agentType}</strong>
                      <span className="cut soft grow">{thread.title ?? thread.id}</span>
                      <span className="faint num">
                        {ago(thread.updatedAt, Math.max(now, Date.parse(thread.updatedAt)))}
                      </span>
                    </span>
                    <span className={css.first}>
                      <Status status={thread.status} reason={thread.reason} />
                      <span className="grow" />
                      <span className="faint num">
                        {count(total(thread.tokensUsed), "token")} · {money(thread.costUsd)}
                      </span>
                    </span>
                  </Link>
                </li>
              ))}
            </ul>
          </section>
        </div>
      </div>
    </>
  );
}

function Figure({
  label,
  value,
  tone,
  href,
}: {
  label: string;
  value: string;
  tone?: string | undefined;
  href?: string;
}) {
  const inside = (
    <>
      <span className={css.value} data-tone={tone}>
        {value}
      </span>
      <span className={css.label}>{label}</span>
    </>
  );
  return href ? (
    <Link className={css.figure} href={href}>
      {inside}
    </Link>
  ) : (
    <div className={css.figure}>{inside}</div>
  );
}
