import { useVirtualizer } from "@tanstack/react-virtual";
import { ChevronRightIcon } from "lucide-react";
import { type KeyboardEvent, memo, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { ThreadSummary } from "@/api/types";
import css from "@/app/sidebar/ThreadTree.module.css";
import { Link, navigate } from "@/router/router";
import { to } from "@/router/routes";
import { ago, money, statusOf } from "@/text/format";
import { type Filter, type Row, rows, tree } from "@/threads/threadTree";
import { Dot } from "@/ui/Status";
import { useNow } from "@/ui/useNow";

const ROW_HEIGHT = 42;
const INDENT = 14;

interface Props {
  agency: string;
  threads: ReadonlyMap<string, ThreadSummary>;
  current: string | null;
  search: string;
  filter: Filter;
}

/** The threads, of which only the rows in sight are in the page: ten thousand are as smooth as ten. */
export function ThreadTree({ agency, threads, current, search, filter }: Props) {
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const [focused, setFocused] = useState<string | null>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const wantsFocus = useRef(false);
  const roots = useMemo(() => tree(threads.values()), [threads]);
  const shown = useMemo(() => rows(roots, closed, { search, filter }), [roots, closed, search, filter]);
  const list = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    getItemKey: (at) => shown[at]?.thread.id ?? at,
    overscan: 8,
  });
  const now = useNow(60_000);

  const at = (id: string | null) => shown.findIndex(({ thread }) => thread.id === id);
  const reached = Math.max(0, at(focused) >= 0 ? at(focused) : at(current));

  // biome-ignore lint/correctness/useExhaustiveDependencies: only when another thread is opened, not whenever rows change
  useEffect(() => {
    const row = at(current);
    if (row >= 0) list.scrollToIndex(row, { align: "auto" });
  }, [current, shown.length > 0]);

  useEffect(() => {
    if (!wantsFocus.current || focused === null) return;
    const row = scroller.current?.querySelector<HTMLElement>(`[data-thread="${CSS.escape(focused)}"]`);
    wantsFocus.current = !row; // it may be far away, and come with the next rendering
    row?.focus();
  });

  const fold = useCallback((id: string, shut: boolean) => {
    setClosed((before) => {
      const next = new Set(before);
      if (shut) next.add(id);
      else next.delete(id);
      return next;
    });
  }, []);

  const focus = (row: number) => {
    const found = shown[Math.min(Math.max(row, 0), shown.length - 1)];
    if (!found) return;
    wantsFocus.current = true;
    setFocused(found.thread.id);
    list.scrollToIndex(Math.min(Math.max(row, 0), shown.length - 1), { align: "auto" });
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const row = shown[reached];
    if (!row) return;
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / ROW_HEIGHT) - 1);
    const moves: Record<string, () => void> = {
      ArrowDown: () => focus(reached + 1),
      ArrowUp: () => focus(reached - 1),
      PageDown: () => focus(reached + page),
      PageUp: () => focus(reached - page),
      Home: () => focus(0),
      End: () => focus(shown.length - 1),
      ArrowRight: () => (row.open === false ? fold(row.thread.id, false) : focus(reached + 1)),
      ArrowLeft: () => (row.open === true ? fold(row.thread.id, true) : focus(parentOf(shown, reached))),
      " ": () => navigate(to.thread(agency, row.thread.id)),
    };
    const move = moves[event.key];
    if (!move || event.metaKey || event.ctrlKey || event.altKey) return;
    event.preventDefault();
    move();
  };

  return (
    <div ref={scroller} className={`${css.scroller} scroll`} role="tree" aria-label="Threads" onKeyDown={onKeyDown}>
      <div className={css.inside} style={{ height: list.getTotalSize() }} role="presentation">
        {list.getVirtualItems().map(({ index, key, start }) => {
          const row = shown[index];
          return row ? (
            <ThreadRow
              key={key}
              row={row}
              top={start}
              title={row.thread.title}
              href={to.thread(agency, row.thread.id)}
              current={row.thread.id === current}
              reached={index === reached}
              now={now}
              onFold={fold}
              onFocus={setFocused}
            />
          ) : null;
        })}
      </div>
    </div>
  );
}

function parentOf(shown: readonly Row[], at: number): number {
  const depth = shown[at]?.depth ?? 0;
  for (let above = at - 1; above >= 0; above--) if ((shown[above]?.depth ?? 0) < depth) return above;
  return at;
}

interface RowProps {
  row: Row;
  top: number;
  title: string | null;
  href: string;
  current: boolean;
  reached: boolean;
  now: number;
  onFold(id: string, shut: boolean): void;
  onFocus(id: string): void;
}

const ThreadRow = memo(
  function ThreadRow({ row, top, title, href, current, reached, now, onFold, onFocus }: RowProps) {
    const { thread, depth, open, dim } = row;
    const [tone, words] = statusOf(thread);
    const spent = thread.costUsd ? money(thread.costUsd) : "";
    return (
      <Link
        href={href}
        className={css.row}
        style={{ transform: `translateY(${top}px)`, paddingLeft: 8 + Math.min(depth, 8) * INDENT }}
        role="treeitem"
        aria-level={depth + 1}
        aria-expanded={open ?? undefined}
        aria-selected={current}
        aria-current={current ? "page" : undefined}
        tabIndex={reached ? 0 : -1}
        data-thread={thread.id}
        data-dim={dim || undefined}
        onFocus={() => onFocus(thread.id)}
      >
        {open === null ? (
          <span className={css.fold} />
        ) : (
          // The arrow keys do the same, so it is nothing that needs a name or a focus of its own.
          <span
            className={css.fold}
            data-open={open || undefined}
            aria-hidden="true"
            onClick={(event) => {
              event.preventDefault();
              onFold(thread.id, open);
            }}
          >
            <ChevronRightIcon size={12} />
          </span>
        )}
        <span className={css.lines}>
          <span className={css.line}>
            <span className={css.agent}>{thread.agentType}</span>
            <span className={css.title}>{title}</span>
            <span className={css.age}>{ago(thread.updatedAt, Math.max(now, Date.parse(thread.updatedAt)))}</span>
          </span>
          <span className={css.line} data-tone={tone}>
            <Dot tone={tone} />
            <span className={`${css.words} status`}>{words}</span>
            <span className={css.cost}>{spent}</span>
          </span>
        </span>
      </Link>
    );
  },
  (a, b) =>
    a.row.thread === b.row.thread &&
    a.row.depth === b.row.depth &&
    a.row.open === b.row.open &&
    a.row.dim === b.row.dim &&
    a.top === b.top &&
    a.title === b.title &&
    a.current === b.current &&
    a.reached === b.reached &&
    a.now === b.now &&
    a.onFold === b.onFold,
);
