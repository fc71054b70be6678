// JSON to look into: what is large is closed until a person opens it, so that a long conversation costs nothing.

import { useState } from "react";
import css from "@/views/events/JsonTree.module.css";

const OPEN_DEPTH = 1;
const SMALL = 8;
const TEXT = 400;
/** So many entries are shown at once. */
const MANY = 200;

export function JsonTree({ value }: { value: unknown }) {
  return (
    <div className={css.tree}>
      <Value value={value} depth={0} name={null} />
    </div>
  );
}

interface Props {
  value: unknown;
  depth: number;
  name: string | null;
}

function Value({ value, depth, name }: Props) {
  if (typeof value === "object" && value !== null) return <Many value={value} depth={depth} name={name} />;
  return (
    <div className={css.line}>
      <Name name={name} />
      {typeof value === "string" ? <Text text={value} /> : <span className={css.other}>{String(value)}</span>}
    </div>
  );
}

function Many({ value, depth, name }: Props & { value: object }) {
  const entries = Object.entries(value as Record<string, unknown>);
  const list = Array.isArray(value);
  const [open, setOpen] = useState(depth < OPEN_DEPTH || (depth === OPEN_DEPTH && entries.length <= SMALL));
  const [most, setMost] = useState(MANY);
  const size = list ? `[${entries.length}]` : `{${entries.length}}`;
  if (!entries.length) {
    return (
      <div className={css.line}>
        <Name name={name} />
        <span className={css.other}>{list ? "[]" : "{}"}</span>
      </div>
    );
  }
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className={css.line}>
        <Name name={name} />
        <span className={css.size}>{size}</span>
      </summary>
      {open && (
        <div className={css.inside}>
          {entries.slice(0, most).map(([key, each]) => (
            <Value key={key} name={key} value={each} depth={depth + 1} />
          ))}
          {entries.length > most && (
            <button type="button" className="button small" onClick={() => setMost(most + MANY)}>
              {entries.length - most} more
            </button>
          )}
        </div>
      )}
    </details>
  );
}

function Name({ name }: { name: string | null }) {
  return name === null ? null : <span className={css.name}>{name}: </span>;
}

function Text({ text }: { text: string }) {
  const [whole, setWhole] = useState(text.length <= TEXT);
  return (
    <span className={css.text}>
      {JSON.stringify(whole ? text : `${text.slice(0, TEXT)}…`)}
      {!whole && (
        <button type="button" className={`button small ${css.more}`} onClick={() => setWhole(true)}>
          {text.length - TEXT} more characters
        </button>
      )}
    </span>
  );
}
