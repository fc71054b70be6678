import { useState } from "react";
import { useAction, useLoad } from "@/api/hooks";
import { changeSchedule, deleteSchedule, listScheduleRuns, runSchedule } from "@/api/schedules";
import type { Schedule } from "@/api/types";
import { useAgency } from "@/live/hooks";
import { Link } from "@/router/router";
import { to } from "@/router/routes";
import { dateTime } from "@/text/format";
import { Confirm } from "@/ui/Confirm";
import { Refusal } from "@/ui/Refusal";
import { Status } from "@/ui/Status";
import { ScheduleForm } from "@/views/schedules/ScheduleForm";

const EVERY_MS = 5_000;

interface Props {
  agency: string;
  schedule: Schedule;
  onChanged(): Promise<void>;
  onDeleted(): Promise<void>;
}

/** A schedule: what can be done with it, what it is, and what it has started. */
export function SchedulePanel({ agency, schedule, onChanged, onDeleted }: Props) {
  const { threads } = useAgency(agency);
  const { data: runs, reload } = useLoad(schedule.id, () => listScheduleRuns(agency, schedule.id), {
    everyMs: EVERY_MS,
  });
  const [deleting, setDeleting] = useState(false);
  const act = useAction(async (deed: () => Promise<unknown>) => {
    await deed();
    await Promise.all([onChanged(), reload()]);
  });
  const paused = schedule.status === "paused";
  return (
    <div className="stack">
      <div className="row wrap">
        <button
          type="button"
          className="button"
          disabled={act.busy}
          onClick={() => void act.run(() => runSchedule(agency, schedule.id))}
        >
          Run now
        </button>
        {schedule.status !== "done" && (
          <button
            type="button"
            className="button"
            disabled={act.busy}
            onClick={() =>
              void act.run(() => changeSchedule(agency, schedule.id, { status: paused ? "active" : "paused" }))
            }
          >
            {paused ? "Resume" : "Pause"}
          </button>
        )}
        <button type="button" className="button quiet" onClick={() => setDeleting(true)}>
          Delete …
        </button>
        <span className="faint">{schedule.nextAt ? `next ${dateTime(schedule.nextAt)}` : ""}</span>
      </div>
      <Refusal problem={act.problem} />
      <ScheduleForm key={schedule.updatedAt} agency={agency} schedule={schedule} onSaved={onChanged} />
      <section>
        <h2 className="title">Runs</h2>
        {runs?.length === 0 && <p className="faint">It has not run yet.</p>}
        {runs && runs.length > 0 && (
          <table className="table">
            <thead>
              <tr>
                <th>Due</th>
                <th>What came of it</th>
                <th>Thread</th>
              </tr>
            </thead>
            <tbody>
              {runs.map((run) => {
                const thread = run.threadId ? threads.get(run.threadId) : undefined;
                return (
                  <tr key={run.id}>
                    <td className="num">
                      {dateTime(run.dueAt)}
                      {run.by === "person" && <span className="faint"> by hand</span>}
                    </td>
                    <td>
                      {run.status}
                      {run.error && <span className="bad"> {run.error}</span>}
                    </td>
                    <td>
                      {run.threadId && (
                        <span className="row">
                          <Link href={to.thread(agency, run.threadId)}>open</Link>
                          {thread && <Status status={thread.status} reason={thread.reason} />}
                        </span>
                      )}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        )}
      </section>
      {deleting && (
        <Confirm
          title="Delete the schedule"
          deed={`Delete “${schedule.name}”`}
          onClose={() => setDeleting(false)}
          act={async () => {
            await deleteSchedule(agency, schedule.id);
            await onDeleted();
          }}
        >
          Threads that it has started stay.
        </Confirm>
      )}
    </div>
  );
}
