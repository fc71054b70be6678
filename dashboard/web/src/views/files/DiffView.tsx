import { useMemo, useState } from "react";
import { count } from "@/text/format";
import { Empty } from "@/ui/Empty";
import { Toolbar } from "@/ui/Toolbar";
import { changesOf, type DiffLine } from "@/views/files/changes";
import css from "@/views/files/DiffView.module.css";
import type { Version } from "@/views/files/versions";

const MOST = 3_000;
const HOW = { written: "written", edited: "edited", given: "now" } as const;
const SIGN = { same: " ", added: "+", removed: "−", skipped: "" } as const;

/** What has changed between two versions of a file. */
export function DiffView({ versions }: { versions: readonly Version[] }) {
  const last = versions.length - 1;
  const [chosen, choose] = useState<{ from: number; to: number } | null>(null); // until then, the latest change
  const from = Math.min(chosen?.from ?? last - 1, last);
  const to = Math.min(chosen?.to ?? last, last);
  const before = versions[from]?.text ?? "";
  const after = versions[to]?.text ?? "";
  const changes = useMemo(() => changesOf(before, after), [before, after]);
  return (
    <div className={css.view}>
      <Toolbar label="Versions">
        <Choice label="From" versions={versions} value={from} onChange={(each) => choose({ from: each, to })} />
        <Choice label="To" versions={versions} value={to} onChange={(each) => choose({ from, to: each })} />
        {changes && (
          <span className="num" role="status">
            <span className={css.plus}>+{changes.added}</span> <span className={css.minus}>−{changes.removed}</span>
          </span>
        )}
      </Toolbar>
      {changes === null ? (
        <Empty title="These versions have too little in common to be compared." />
      ) : changes.lines.length === 0 ? (
        <Empty title="These versions are the same." />
      ) : (
        <div className={css.scroll} role="region" aria-label="Changes" tabIndex={0}>
          <table className={css.lines}>
            <tbody>
              {changes.lines.slice(0, MOST).map((line, at) => (
                <Line key={at} line={line} />
              ))}
            </tbody>
          </table>
          {changes.lines.length > MOST && <p className="faint">{count(changes.lines.length - MOST, "more line")}</p>}
        </div>
      )}
    </div>
  );
}

function Line({ line: { kind, text, before, after } }: { line: DiffLine }) {
  return (
    <tr data-kind={kind}>
      <td className={css.number}>{before}</td>
      <td className={css.number}>{after}</td>
      <td className={css.sign}>{SIGN[kind]}</td>
      <td className={css.text}>{text}</td>
    </tr>
  );
}

interface ChoiceProps {
  label: string;
  versions: readonly Version[];
  value: number;
  onChange(at: number): void;
}

function Choice({ label, versions, value, onChange }: ChoiceProps) {
  return (
    <label className={css.choice}>
      {label}
      <select value={value} onChange={(event) => onChange(Number(event.target.value))}>
        {versions.map(({ n, how }, at) => (
          <option key={n} value={at}>
            Version {n}, {HOW[how]}
          </option>
        ))}
      </select>
    </label>
  );
}
