import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { useThreadEvents } from "@/live/hooks";
import { useQuery } from "@/router/router";
import { NodePanel } from "@/run/NodePanel";
import { type Gap, graphOf, KINDS, type Kind } from "@/run/runGraph";
import { KIND_WORDS, SIGNS, STATUS_WORDS } from "@/run/words";
import { clock, count, duration } from "@/text/format";
import { Empty, Loading } from "@/ui/Empty";
import { Toolbar, ToolbarButtons, ToolbarOption, ToolbarOptions, toggled, ZoomButtons } from "@/ui/Toolbar";
import { useNow } from "@/ui/useNow";
import type { ThreadViewProps } from "@/views/tabs";
import { marks, type Scale, scaleOf } from "@/views/timeline/scale";
import { isMoving, type Span, spansOf } from "@/views/timeline/spans";
import css from "@/views/timeline/TimelineView.module.css";

const ROW = 26;
const ZOOM = 2;
const ZOOM_MOST = 64;
/** A mark with its words takes so much of the axis. */
const MARK_WIDTH = 92;
const MARKS_LEAST = 2;

export default function TimelineView({ agency, thread }: ThreadViewProps) {
  const { events, complete } = useThreadEvents(agency, thread);
  const graph = useMemo(() => graphOf(complete ? events : []), [events, complete]);
  const { nodes } = graph;
  const [chosen, setChosen] = useQuery("node");
  const [without, setWithout] = useState<ReadonlySet<Kind>>(new Set());
  const [shorten, setShorten] = useState(true);
  const [zoom, setZoom] = useState(1);
  const now = useNow();
  const moving = isMoving(nodes);
  const clockNow = moving ? Math.max(now, Date.parse(events.at(-1)?.ts ?? "") || 0) : 0;
  const all = useMemo(() => spansOf(graph, clockNow), [graph, clockNow]);
  const spans = useMemo(() => all.filter(({ node }) => !without.has(node.kind)), [all, without]);
  const scale = useMemo(() => scaleOf(all, shorten), [all, shorten]);
  const node = useMemo(() => nodes.find(({ id }) => id === chosen) ?? null, [nodes, chosen]);

  const scroller = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: spans.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 12,
  });

  // What a link has chosen is shown.
  const first = useRef(chosen);
  useEffect(() => {
    if (first.current === null || !spans.length) return;
    const at = spans.findIndex((span) => span.node.id === first.current);
    first.current = null;
    if (at >= 0) rows.scrollToIndex(at, { align: "center" });
  }, [spans, rows]);

  if (!complete || !events.length) return <Loading what="Loading the events" />; // every thread has some
  if (!nodes.length) {
    return (
      <Empty title="Nothing has run yet.">
        <p>The timeline grows as the thread works: write it a message.</p>
      </Empty>
    );
  }
  return (
    <div className={css.view}>
      <Toolbar label="Timeline">
        <ToolbarOptions legend="What is shown">
          {KINDS.map((kind) => (
            <ToolbarOption
              key={kind}
              checked={!without.has(kind)}
              onChange={(isShown) => setWithout(toggled(without, kind, !isShown))}
            >
              {KIND_WORDS[kind]}
            </ToolbarOption>
          ))}
        </ToolbarOptions>
        <span className="faint num grow">{count(spans.length, "row")}</span>
        <ToolbarOption checked={shorten} onChange={setShorten}>
          Shorten pauses
        </ToolbarOption>
        <ToolbarButtons>
          <ZoomButtons
            onOut={zoom > 1 ? () => setZoom(Math.max(1, zoom / ZOOM)) : undefined}
            onIn={zoom < ZOOM_MOST ? () => setZoom(Math.min(ZOOM_MOST, zoom * ZOOM)) : undefined}
            onFit={() => setZoom(1)}
          />
        </ToolbarButtons>
      </Toolbar>
      <div className={css.body}>
        <div className={css.scroll} ref={scroller} tabIndex={0} role="region" aria-label="Timeline of the thread">
          <div className={css.sheet} style={{ width: `calc(var(--names) + (100% - var(--names)) * ${zoom})` }}>
            <Axis scale={scale} zoom={zoom} gaps={graph.gaps} />
            <ol className={css.rows} style={{ height: rows.getTotalSize() }}>
              {rows.getVirtualItems().map((row) => {
                const span = spans[row.index];
                return span ? (
                  <Row
                    key={span.node.id}
                    span={span}
                    scale={scale}
                    gaps={graph.gaps}
                    top={row.start}
                    at={row.index + 1}
                    of={spans.length}
                    chosen={span.node.id === chosen}
                    onChoose={setChosen}
                  />
                ) : null;
              })}
            </ol>
          </div>
        </div>
        {node && (
          <NodePanel agency={agency} thread={thread} node={node} events={events} onClose={() => setChosen(null)} />
        )}
      </div>
    </div>
  );
}

const percent = (part: number) => `${(100 * part).toFixed(3)}%`;

const gapWords = ({ from, to, died }: Gap) =>
  `${died ? "The process died" : "The process was stopped"}: nothing was heard for ${duration(to - from)}, then another took the run up`;

const placed = (scale: Scale, from: number, to: number) => ({
  left: percent(scale.at(from)),
  width: percent(scale.at(to) - scale.at(from)),
});

function Axis({ scale, zoom, gaps }: { scale: Scale; zoom: number; gaps: readonly Gap[] }) {
  const lane = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const node = lane.current;
    if (!node || typeof ResizeObserver === "undefined") return;
    const observer = new ResizeObserver(() => setWidth(node.clientWidth));
    observer.observe(node);
    return () => observer.disconnect();
  }, []);
  // The lane grows with the zoom; until it is measured it is as wide as a desk's.
  const most = Math.max(MARKS_LEAST, Math.floor((width || 640 * zoom) / MARK_WIDTH));
  const shown = useMemo(() => marks(scale, most), [scale, most]);
  return (
    <div className={css.axis} aria-hidden="true">
      <div className={css.corner}>{clock(scale.begin)}</div>
      <div className={css.marks} ref={lane}>
        {scale.pauses.map(({ from, to }) => (
          <span
            key={from}
            className={css.pause}
            title={`Nothing but waiting for ${duration(to - from)}`}
            style={placed(scale, from, to)}
          />
        ))}
        {gaps.map((gap) => (
          <span key={gap.to} className={css.gap} title={gapWords(gap)} style={placed(scale, gap.from, gap.to)} />
        ))}
        {shown.map((time) => (
          <span key={time} className={css.mark} style={{ left: percent(scale.at(time)) }}>
            {duration(time - scale.begin)}
          </span>
        ))}
      </div>
    </div>
  );
}

interface RowProps {
  span: Span;
  scale: Scale;
  gaps: readonly Gap[];
  top: number;
  at: number;
  of: number;
  chosen: boolean;
  onChoose(id: string): void;
}

function Row({ span: { node, depth, start, end }, scale, gaps, top, at, of, chosen, onChoose }: RowProps) {
  const took = duration(end - start);
  const [left, right] = [scale.at(start), scale.at(end)];
  const words = `${KIND_WORDS[node.kind]} ${node.label}, ${STATUS_WORDS[node.status][1]}, ${took}`;
  return (
    <li className={css.row} style={{ transform: `translateY(${top}px)` }} aria-posinset={at} aria-setsize={of}>
      <button
        type="button"
        className={css.span}
        data-node={node.id}
        data-kind={node.kind}
        data-status={node.status}
        aria-current={chosen || undefined}
        title={`${words}${node.detail ? `\n${node.detail}` : ""}`}
        onClick={() => onChoose(node.id)}
      >
        <span className={css.name} style={{ paddingLeft: 10 + 14 * depth }}>
          <span className="cut">
            {SIGNS[node.status]}
            {node.label}
          </span>
          <span className={`${css.took} num`}>{took}</span>
          <span className="unseen">{`${KIND_WORDS[node.kind]}, ${STATUS_WORDS[node.status][1]}`}</span>
        </span>
        <span className={css.lane}>
          {gaps.map((gap) => (
            <span key={gap.to} className={css.gap} style={placed(scale, gap.from, gap.to)} />
          ))}
          <span className={css.bar} style={{ left: percent(left), width: percent(right - left) }} />
        </span>
      </button>
    </li>
  );
}
