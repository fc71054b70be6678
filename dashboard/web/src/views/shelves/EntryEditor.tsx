import { useState } from "react";
import { useAction } from "@/api/hooks";
import { asProblem, Problem } from "@/api/problem";
import { ABSENT, isConflict, readEntry, writeEntry } from "@/api/shelves";
import { Refusal } from "@/ui/Refusal";
import css from "@/views/shelves/ShelvesView.module.css";

interface Props {
  agency: string;
  shelf: string;
  path: string;
  /** What is there now; what is typed stays as it is when that changes. */
  text: string;
  version: string;
  /** Load `text` and `version` anew. */
  refresh(): Promise<void>;
}

/** Changes a text. It counts only if the entry still has the version that the change began with. */
export function EntryEditor({ agency, shelf, path, text, version, refresh }: Props) {
  const [begun, begin] = useState({ text, version });
  const [typed, type] = useState(text);
  const [saved, setSaved] = useState<string | null>(null);
  const [refused, setRefused] = useState<string | null>(null);
  const save = useAction(async (over: string) => {
    try {
      const made = await writeEntry(agency, shelf, path, new Blob([typed]), over);
      begin({ text: typed, version: made.version });
      setSaved(made.version);
    } catch (error) {
      if (!isConflict(asProblem(error))) throw error;
      setRefused(over);
    }
    await refresh();
  });
  const overwrite = useAction(async () => {
    await save.run(await versionNow(agency, shelf, path));
  });
  const takeTheirs = () => {
    begin({ text, version });
    type(text);
  };
  const isChanged = typed !== begun.text;
  const hasMoved = version !== begun.version;
  const busy = save.busy || overwrite.busy;
  const conflict = !busy && (refused === begun.version || (hasMoved && isChanged));
  return (
    <form
      className={css.edit}
      aria-label={`Edit ${path}`}
      onSubmit={(event) => {
        event.preventDefault();
        void save.run(begun.version);
      }}
    >
      <textarea
        aria-label="Text"
        spellCheck={false}
        value={typed}
        onChange={(event) => {
          setSaved(null);
          type(event.target.value);
        }}
      />
      {conflict ? (
        <div className={css.conflict} role="alert">
          <span className="bad grow">
            It was changed meanwhile: you began with version {begun.version}
            {hasMoved && `, now it is ${version}`}.
          </span>
          <button type="button" className="button small" disabled={!hasMoved} onClick={takeTheirs}>
            Take what is there
          </button>
          <button type="button" className="button small danger" onClick={() => void overwrite.run()}>
            Overwrite it with mine
          </button>
        </div>
      ) : (
        <Refusal problem={save.problem ?? overwrite.problem} />
      )}
      <div className="row">
        <button type="submit" className="button primary" disabled={busy || !isChanged || conflict}>
          Save
        </button>
        <span className="faint" role="status">
          {saved !== null && `Saved as version ${saved}.`}
        </span>
      </div>
    </form>
  );
}

async function versionNow(agency: string, shelf: string, path: string): Promise<string> {
  try {
    return (await readEntry(agency, shelf, path)).version;
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return ABSENT; // it was deleted
    throw error;
  }
}
