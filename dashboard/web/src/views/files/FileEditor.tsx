import { useState } from "react";
import { useAction } from "@/api/hooks";
import { lastSeq } from "@/api/log";
import { editState } from "@/api/threads";
import { useThreadStore } from "@/live/hooks";
import { Refusal } from "@/ui/Refusal";
import css from "@/views/files/FileEditor.module.css";

interface Props {
  agency: string;
  thread: string;
  path: string;
  text: string;
  onSaved(): void;
}

/** Changes the text of one of the agent's files. The gateway refuses it while a run is at work, and if anything has
 * happened since the editing began. */
export function FileEditor({ agency, thread, path, text, onSaved }: Props) {
  const store = useThreadStore(agency, thread);
  const seqNow = () => lastSeq(store.get().log);
  const [begun, begin] = useState<{ text: string; seq: number | null }>(() => ({ text, seq: seqNow() }));
  const [typed, type] = useState(text);
  const save = useAction(async () => {
    await editState(agency, thread, { files: { [path]: typed } }, begun.seq ?? seqNow());
    begin({ text: typed, seq: null }); // what comes next of this is known to be ours
    onSaved();
  });
  const again = () => {
    begin({ text, seq: seqNow() });
    type(text);
  };
  return (
    <form
      className={css.edit}
      aria-label={`Edit ${path}`}
      onSubmit={(event) => {
        event.preventDefault();
        void save.run();
      }}
    >
      <textarea aria-label="Text" spellCheck={false} value={typed} onChange={(event) => type(event.target.value)} />
      <Refusal problem={save.problem} />
      <div className="row">
        <button type="submit" className="button primary" disabled={save.busy || typed === begun.text}>
          Save
        </button>
        <button type="button" className="button" disabled={save.busy} onClick={again}>
          Take what is there
        </button>
        <span className="faint">The agent is told that you have changed the file.</span>
      </div>
    </form>
  );
}
