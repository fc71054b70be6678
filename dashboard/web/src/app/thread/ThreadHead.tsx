import {
  ChevronRightIcon,
  Columns2Icon as ColumnsIcon,
  CopyIcon,
  EllipsisIcon,
  GitForkIcon,
  LinkIcon,
  PauseIcon,
  PencilIcon,
  PlayIcon,
  RotateCcwIcon,
  SquareIcon,
  Trash2Icon,
} from "lucide-react";
import { useState } from "react";
import { useAction } from "@/api/hooks";
import * as api from "@/api/threads";
import css from "@/app/thread/ThreadHead.module.css";
import { useAgency, useAgencyStore, useThread, useThreadStore } from "@/live/hooks";
import type { ThreadNow } from "@/live/thread";
import { Link, navigate } from "@/router/router";
import { to } from "@/router/routes";
import { count, duration, isActive, money, number, total } from "@/text/format";
import { ancestors } from "@/threads/threadTree";
import { Confirm } from "@/ui/Confirm";
import { Menu } from "@/ui/Menu";
import { NameDialog } from "@/ui/NameDialog";
import { Status } from "@/ui/Status";
import { UnattendedMark } from "@/ui/UnattendedMark";
import { useNow } from "@/ui/useNow";

/** The thread's name, what it does and what that has taken, and how to stop it. */
export function ThreadHead({ agency, thread }: { agency: string; thread: string }) {
  const store = useThreadStore(agency, thread);
  const agencyStore = useAgencyStore(agency);
  const { threads } = useAgency(agency);
  const now = useThread(agency, thread);
  const [dialog, setDialog] = useState<"delete" | "rename" | null>(null);
  const summary = threads.get(thread);
  const run = now.run ?? (summary ? { status: summary.status, reason: summary.reason } : null);
  const path = ancestors(threads, thread).reverse();
  const origin = now.state?.thread.forkedFrom ?? summary?.forkedFrom;

  const act = useAction(async (deed: (agency: string, thread: string) => Promise<unknown>) => {
    await deed(agency, thread);
    store.refresh();
  });
  const fork = useAction(async () => {
    const made = await api.fork(agency, thread, {});
    agencyStore.reload();
    navigate(to.thread(agency, made.id));
  });
  const isPaused = run?.status === "paused" && run.reason === "manual";
  const problem = act.problem ?? fork.problem;

  return (
    <header className={css.head}>
      <div className={css.names}>
        {path.map((each) => (
          <span key={each.id} className={css.up}>
            <Link href={to.thread(agency, each.id)}>{each.agentType}</Link>
            <ChevronRightIcon size={11} />
          </span>
        ))}
        <h1>{now.state?.agentType ?? summary?.agentType ?? "…"}</h1>
        {summary?.title && (
          <button type="button" className={css.title} title="Rename the thread" onClick={() => setDialog("rename")}>
            {summary.title}
          </button>
        )}
        {run && <Status status={run.status} reason={run.reason} />}
        <UnattendedMark tools={now.state?.unattendedTools ?? []} />
        {origin && (
          <span className="faint">
            forked from <Link href={to.thread(agency, origin.threadId)}>another thread</Link> at {origin.seq}
          </span>
        )}
      </div>
      <Figures now={now} />
      <div className={css.actions}>
        {problem && (
          <span className="bad cut" role="alert" title={problem.message}>
            {problem.message}
          </span>
        )}
        {run?.status === "running" && (
          <button type="button" className="button small" disabled={act.busy} onClick={() => void act.run(api.pause)}>
            <PauseIcon size={13} />
            Pause
          </button>
        )}
        {isPaused && (
          <button
            type="button"
            className="button small primary"
            disabled={act.busy}
            onClick={() => void act.run(api.resume)}
          >
            <PlayIcon size={12} fill="currentColor" />
            Resume
          </button>
        )}
        {run?.status === "error" && (
          <button
            type="button"
            className="button small primary"
            title="Try the run again from where it failed; what it has done is kept"
            disabled={act.busy}
            onClick={() => void act.run((agency, thread) => api.retry(agency, thread, {}))}
          >
            <RotateCcwIcon size={13} />
            Retry
          </button>
        )}
        {isActive(run?.status) && (
          <button
            type="button"
            className={`button small ${css.stop}`}
            disabled={act.busy}
            onClick={() => void act.run(api.cancel)}
          >
            <SquareIcon size={13} fill="currentColor" />
            Stop
          </button>
        )}
        <Menu
          label="More"
          align="right"
          button={<EllipsisIcon />}
          items={[
            { label: "Rename …", icon: <PencilIcon />, act: () => setDialog("rename") },
            {
              label: "Fork",
              hint: "A new thread with all that was said here.",
              icon: <GitForkIcon />,
              act: () => void fork.run(),
            },
            {
              label: "Compare …",
              hint: origin ? "This fork beside its original." : "This thread beside another one.",
              icon: <ColumnsIcon />,
              act: () => navigate(origin ? to.compare(agency, origin.threadId, thread) : to.compare(agency, thread)),
            },
            {
              label: "Copy the link",
              icon: <LinkIcon />,
              act: () => void navigator.clipboard.writeText(location.href),
            },
            { label: "Copy the id", icon: <CopyIcon />, act: () => void navigator.clipboard.writeText(thread) },
            "line",
            { label: "Delete …", icon: <Trash2Icon />, danger: true, act: () => setDialog("delete") },
          ]}
        />
      </div>
      {dialog === "delete" && (
        <Confirm
          title="Delete the thread"
          deed="Delete"
          onClose={() => setDialog(null)}
          act={async () => {
            await api.deleteThread(agency, thread);
            navigate(to.agency(agency), { replace: true });
            agencyStore.forget(thread);
          }}
        >
          Its messages, events and files go with it, and so do all threads below it. This cannot be undone.
        </Confirm>
      )}
      {dialog === "rename" && (
        <NameDialog
          title="Rename the thread"
          label="Title"
          name={summary?.title ?? ""}
          deed="Rename"
          optional
          hint="Empty gives the thread its own title back."
          act={async (title) => {
            agencyStore.put(await api.renameThread(agency, thread, title || null));
          }}
          onClose={() => setDialog(null)}
        />
      )}
    </header>
  );
}

function Figures({ now: { envelope, state, run, loadedAt } }: { now: ThreadNow }) {
  const clock = useNow();
  if (envelope === null) return <p className={css.figures}>{state?.model}</p>;
  const { turns, tokensUsed, durationMs, costUsd, model, attempts } = envelope.meta;
  const going = run?.status === "running" ? Math.max(0, clock - loadedAt) : 0; // time counts while it is not paused
  const parts = [
    count(turns, "turn"),
    `${number(total(tokensUsed))} tokens`,
    money(costUsd),
    `${duration(durationMs + going)} of work`,
    model ?? state?.model ?? "",
    ...(attempts.length ? [count(attempts.length, "failed attempt")] : []),
  ];
  return <p className={`${css.figures} num`}>{parts.join(" · ")}</p>;
}
