import { PlusIcon } from "lucide-react";
import { useLoad } from "@/api/hooks";
import { listSchedules } from "@/api/schedules";
import { Link, navigate } from "@/router/router";
import { to } from "@/router/routes";
import { dateTime } from "@/text/format";
import { Empty, Loading } from "@/ui/Empty";
import { Failed } from "@/ui/Failed";
import css from "@/ui/ListAndEditor.module.css";
import { PageHead } from "@/ui/PageHead";
import { rhythm } from "@/views/schedules/draft";
import { ScheduleForm } from "@/views/schedules/ScheduleForm";
import { SchedulePanel } from "@/views/schedules/SchedulePanel";

const NEW = "+";
const EVERY_MS = 5_000;
const TONES = { active: "ok", paused: "wait", done: "idle" } as const;

/** What begins by itself: at a time, every so often, or by a cron line. */
export default function SchedulesView({ agency, schedule }: { agency: string; schedule: string | null }) {
  const { data, problem, reload } = useLoad(agency, () => listSchedules(agency), { everyMs: EVERY_MS });
  if (data === undefined) {
    return (
      <>
        <PageHead title="Schedules" />
        {problem ? <Failed problem={problem} retry={() => void reload()} /> : <Loading />}
      </>
    );
  }
  if (data === null) {
    return (
      <>
        <PageHead title="Schedules" />
        <Empty title="This gateway has no schedules.">A newer version of it has.</Empty>
      </>
    );
  }
  const chosen = data.find((each) => each.id === schedule) ?? null;
  return (
    <>
      <PageHead title="Schedules">
        <Link className="button small" href={to.page(agency, "schedules", NEW)}>
          <PlusIcon size={13} />
          New schedule
        </Link>
      </PageHead>
      <div className={css.split} data-open={schedule !== null || undefined}>
        <ul className={`${css.list} scroll`} aria-label="Schedules">
          {data.map((each) => (
            <li key={each.id}>
              <Link
                className={css.item}
                href={to.page(agency, "schedules", each.id)}
                aria-current={each.id === schedule ? "page" : undefined}
              >
                <span className="row">
                  <strong className="cut grow">{each.name || each.agentType}</strong>
                  <span className="tag" data-tone={TONES[each.status]}>
                    {each.status}
                  </span>
                </span>
                <span className={css.about}>
                  {each.agentType}, {rhythm(each)}
                </span>
                {each.nextAt && <span className="faint">next {dateTime(each.nextAt)}</span>}
              </Link>
            </li>
          ))}
        </ul>
        <div className={`${css.editor} scroll`}>
          {schedule === null ? (
            <Empty title={data.length ? "Choose a schedule." : "Nothing is scheduled."}>
              <p>A schedule starts a thread at a time, every so often, or by a cron line.</p>
            </Empty>
          ) : schedule === NEW ? (
            <ScheduleForm
              key={NEW}
              agency={agency}
              schedule={null}
              onSaved={async (made) => {
                await reload();
                navigate(to.page(agency, "schedules", made.id), { replace: true });
              }}
            />
          ) : chosen ? (
            <SchedulePanel
              key={chosen.id}
              agency={agency}
              schedule={chosen}
              onChanged={reload}
              onDeleted={async () => {
                navigate(to.page(agency, "schedules"), { replace: true });
                await reload();
              }}
            />
          ) : (
            <Empty title="There is no such schedule.">Choose another one on the left.</Empty>
          )}
        </div>
      </div>
    </>
  );
}
