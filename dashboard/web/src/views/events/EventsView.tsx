import { useVirtualizer } from "@tanstack/react-virtual";
import { XIcon } from "lucide-react";
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import type { ThreadEvent } from "@/api/types";
import { useThreadEvents } from "@/live/hooks";
import { useQuery } from "@/router/router";
import { EventJson } from "@/run/EventJson";
import { ForkButton } from "@/run/ForkButton";
import { ModelCallButton } from "@/run/ModelCall";
import { CallTraces, EventTraces } from "@/run/Traces";
import { count, number } from "@/text/format";
import { Empty, Loading } from "@/ui/Empty";
import { IconButton } from "@/ui/IconButton";
import { saveFile } from "@/ui/saveFile";
import { Toolbar, ToolbarOption, ToolbarOptions, ToolbarSearch, toggled } from "@/ui/Toolbar";
import css from "@/views/events/EventsView.module.css";
import { AREA_WORDS, AREAS, type Area, areaOf, matching, precise, summary } from "@/views/events/filter";
import { Lineage } from "@/views/events/Lineage";
import type { ThreadViewProps } from "@/views/tabs";

const ROW = 28;

export default function EventsView({ agency, thread }: ThreadViewProps) {
  const { events, complete } = useThreadEvents(agency, thread);
  const [text, setText] = useState("");
  const [without, setWithout] = useState<ReadonlySet<Area>>(new Set());
  const [tail, setTail] = useState(true);
  const [chosen, setChosen] = useQuery("event");
  const words = useDeferredValue(text);
  const shown = useMemo(() => matching(events, { text: words, without }), [events, words, without]);
  const event = useMemo(() => events.find(({ seq }) => String(seq) === chosen) ?? null, [events, chosen]);

  const scroller = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 15,
  });

  const linked = useRef(chosen);
  useEffect(() => {
    if (linked.current !== null && shown.length) {
      const at = shown.findIndex(({ seq }) => String(seq) === linked.current);
      if (at < 0) return;
      linked.current = null;
      setTail(false);
      rows.scrollToIndex(at, { align: "center" });
    } else if (tail && shown.length) {
      rows.scrollToIndex(shown.length - 1, { align: "end" });
    }
  }, [shown, tail, rows]);

  // A person who scrolls up wants to read; one at the end wants to see what comes.
  const onScroll = useCallback(() => {
    const node = scroller.current;
    if (node && node.scrollHeight - node.scrollTop - node.clientHeight > 3 * ROW) setTail(false);
  }, []);

  const choose = (seq: number | null) => {
    linked.current = null;
    setChosen(seq === null ? null : String(seq));
  };
  const move = (by: number) => {
    const at = shown.findIndex(({ seq }) => String(seq) === chosen);
    const next = shown[Math.min(Math.max(at + by, 0), shown.length - 1)];
    if (!next) return;
    setTail(false);
    choose(next.seq);
    rows.scrollToIndex(shown.indexOf(next), { align: "auto" });
  };

  const items = rows.getVirtualItems();
  return (
    <div className={css.view}>
      <Toolbar label="Events">
        <ToolbarSearch label="Filter the events" placeholder="Filter" value={text} onChange={setText} />
        <ToolbarOptions legend="What is shown">
          {AREAS.map((area) => (
            <ToolbarOption
              key={area}
              checked={!without.has(area)}
              onChange={(isShown) => setWithout(toggled(without, area, !isShown))}
            >
              {AREA_WORDS[area]}
            </ToolbarOption>
          ))}
        </ToolbarOptions>
        <span className={`faint num ${css.count}`} role="status">
          {shown.length === events.length
            ? count(events.length, "event")
            : `${number(shown.length)} of ${count(events.length, "event")}`}
        </span>
        <ToolbarOption checked={tail} onChange={setTail}>
          Follow
        </ToolbarOption>
        <button
          type="button"
          className="button small"
          title="Save the events that are shown, as JSON"
          onClick={() =>
            saveFile(new Blob([JSON.stringify(shown, null, 2)], { type: "application/json" }), `${thread}-events.json`)
          }
        >
          Save
        </button>
      </Toolbar>
      <div className={css.lineage}>
        <Lineage agency={agency} thread={thread} />
      </div>
      <div className={css.body}>
        {!complete && !events.length ? (
          <Loading what="Loading the events" />
        ) : (
          <div
            className={css.scroll}
            ref={scroller}
            onScroll={onScroll}
            role="group"
            aria-label="Events; the arrow keys go from one to the next"
            tabIndex={0}
            onKeyDown={(key) => {
              if (key.key !== "ArrowDown" && key.key !== "ArrowUp") return;
              key.preventDefault();
              move(key.key === "ArrowDown" ? 1 : -1);
            }}
          >
            <table className={css.table} aria-label="Events of the thread" aria-rowcount={shown.length + 1}>
              <thead>
                <tr aria-rowindex={1}>
                  <th scope="col">Seq</th>
                  <th scope="col">Time</th>
                  <th scope="col">Type</th>
                  <th scope="col">Run</th>
                  <th scope="col">Data</th>
                </tr>
              </thead>
              <tbody>
                <Space height={items[0]?.start ?? 0} />
                {items.map(({ index }) => {
                  const each = shown[index];
                  return each ? (
                    <Row key={each.seq} event={each} index={index + 2} chosen={each === event} onChoose={choose} />
                  ) : null;
                })}
                <Space height={rows.getTotalSize() - (items.at(-1)?.end ?? 0)} />
              </tbody>
            </table>
            {!shown.length && <Empty title="No event is like that." />}
          </div>
        )}
        {event && (
          <aside className={css.panel} aria-label="Details of the event">
            <header className="row">
              <div className="grow">
                <div className="faint num">Event {event.seq}</div>
                <h2>{event.type}</h2>
              </div>
              <ForkButton agency={agency} thread={thread} seq={event.seq} />
              <IconButton icon={XIcon} label="Close the details" small onClick={() => choose(null)} />
            </header>
            <OfCall agency={agency} thread={thread} event={event} />
            <EventJson event={event} />
          </aside>
        )}
      </div>
    </div>
  );
}

const MODEL_CALL = new Set(["model.started", "model.completed", "model.retried", "model.asked"]);

/** What an event leads to: the model call that it tells of, or what was raised and printed. */
function OfCall({ agency, thread, event: { seq, type, data } }: ThreadViewProps & { event: ThreadEvent }) {
  if (MODEL_CALL.has(type)) return <ModelCallButton agency={agency} thread={thread} seq={seq} />;
  if (type.startsWith("tool.") && typeof data.callId === "string")
    return <CallTraces agency={agency} thread={thread} call={data.callId} seq={seq} />;
  return type === "agent.error" ? <EventTraces agency={agency} thread={thread} seq={seq} /> : null;
}

/** In the place of the rows that are scrolled out of sight. It spans no columns: a phone shows three of the five, and the table would make room for the others. */
function Space({ height }: { height: number }) {
  return height > 0 ? (
    <tr>
      <td style={{ height }} />
    </tr>
  ) : null;
}

interface RowProps {
  event: ThreadEvent;
  index: number;
  chosen: boolean;
  onChoose(seq: number): void;
}

function Row({ event, index, chosen, onChoose }: RowProps) {
  const run = typeof event.data.runId === "string" ? (event.data.runId.split(".").at(-1) ?? "") : "";
  return (
    <tr
      className={css.row}
      aria-rowindex={index}
      aria-current={chosen || undefined}
      data-seq={event.seq}
      data-type={event.type}
      data-area={areaOf(event.type)}
    >
      <td className="num">{event.seq}</td>
      <td className="num">{precise(event.ts)}</td>
      <td>
        <button type="button" className={css.type} onClick={() => onChoose(event.seq)}>
          {event.type}
        </button>
      </td>
      <td className="num">{run}</td>
      <td className={css.data}>{summary(event)}</td>
    </tr>
  );
}
