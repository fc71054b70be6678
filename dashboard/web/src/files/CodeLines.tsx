import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef } from "react";
import css from "@/files/CodeLines.module.css";
import { highlightedLines, plainLines, type Token } from "@/files/colouredLines";
import { LONG, languageOf } from "@/files/content";

const ROW = 19;
/** Longer texts are drawn as far as they are seen only; shorter ones whole, so that the browser can search them. */
const ALL = 2_000;

/** A text with the numbers of its lines, in the colours of its language. */
export function CodeLines({ text, path }: { text: string; path: string }) {
  const language = text.length > LONG ? null : languageOf(path);
  const lines = useMemo(() => (language ? highlightedLines(text, language) : plainLines(text)), [text, language]);
  const label = `Text of ${path}`;
  return lines.length > ALL ? <Seen lines={lines} label={label} /> : <Whole lines={lines} label={label} />;
}

interface Props {
  lines: readonly (readonly Token[])[];
  label: string;
}

function Whole({ lines, label }: Props) {
  return (
    <div className={css.scroll} role="region" aria-label={label} tabIndex={0}>
      <pre className={css.code}>
        {lines.map((line, at) => (
          <Line key={at} line={line} n={at + 1} />
        ))}
      </pre>
    </div>
  );
}

function Seen({ lines, label }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 40,
  });
  const widest = useMemo(
    () =>
      lines.reduce(
        (most, line) =>
          Math.max(
            most,
            line.reduce((sum, { text }) => sum + text.length, 0),
          ),
        0,
      ),
    [lines],
  );
  const items = rows.getVirtualItems();
  return (
    <div className={css.scroll} role="region" aria-label={label} ref={scroller} tabIndex={0}>
      <pre className={css.code} style={{ height: rows.getTotalSize(), minWidth: `calc(${widest}ch + 80px)` }}>
        <div style={{ transform: `translateY(${items[0]?.start ?? 0}px)` }}>
          {items.map(({ index }) => (
            <Line key={index} line={lines[index] ?? []} n={index + 1} />
          ))}
        </div>
      </pre>
    </div>
  );
}

function Line({ line, n }: { line: readonly Token[]; n: number }) {
  return (
    <div className={css.line} data-line={n}>
      {line.map(({ text, className }, at) => (
        <span key={at} className={className || undefined}>
          {text}
        </span>
      ))}
    </div>
  );
}
