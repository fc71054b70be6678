import { useState } from "react";
import { useAction } from "@/api/hooks";
import { editState } from "@/api/threads";
import { Refusal } from "@/ui/Refusal";
import css from "@/views/files/FileEditor.module.css";

interface Props {
  agency: string;
  thread: string;
  path: string;
  text: string;
  onSaved(): void;
}

/** Changes the text of one of the agent's files. The gateway refuses it while a run is at work, and if
 * it has changed since the editing began. */
export function FileEditor({ agency, thread, path, text, onSaved }: Props) {
  const [begun, begin] = useState(text);
  const [typed, type] = useState(text);
  const [saved, setSaved] = useState(false);
  const save = useAction(async () => {
    await editState(agency, thread, { files: { [path]: typed } }, (state) => state.files?.[path], begun);
    begin(typed);
    setSaved(true);
    onSaved();
  });
  const takeTheirs = () => {
    begin(text);
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
      <textarea
        aria-label="Text"
        spellCheck={false}
        value={typed}
        onChange={(event) => {
          setSaved(false);
          type(event.target.value);
        }}
      />
      <Refusal problem={save.problem} />
      <div className="row">
        <button type="submit" className="button primary" disabled={save.busy || typed === begun}>
          Save
        </button>
        <button type="button" className="button" disabled={save.busy} onClick={takeTheirs}>
          Take what is there
        </button>
        <span className="faint" role="status">
          {saved ? "Saved. The agent is told so." : "The agent is told that you have changed the file."}
        </span>
      </div>
    </form>
  );
}
