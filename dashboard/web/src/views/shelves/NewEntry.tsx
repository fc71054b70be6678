import { type FormEvent, useId, useState } from "react";
import { useAction } from "@/api/hooks";
import { ABSENT, writeEntry } from "@/api/shelves";
import type { ShelfEntry, ShelfInfo } from "@/api/types";
import { bytes } from "@/text/format";
import { Dialog } from "@/ui/Dialog";
import { Refusal } from "@/ui/Refusal";

interface Props {
  agency: string;
  /** The shelf that is open. */
  shelf: string | null;
  shelves: readonly ShelfInfo[];
  onMade(made: ShelfEntry): Promise<void>;
  onClose(): void;
}

/** Puts a text or a file on a shelf, which may be a new one. What is there is never replaced. */
export function NewEntry({ agency, shelf, shelves, onMade, onClose }: Props) {
  const [name, setName] = useState(shelf ?? "");
  const [path, setPath] = useState("");
  const [text, setText] = useState("");
  const [file, setFile] = useState<File | null>(null);
  const names = useId();
  const create = useAction(async () => {
    await onMade(await writeEntry(agency, name.trim(), path.trim(), file ?? new Blob([text]), ABSENT));
  });
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (await create.run()) onClose();
  };
  const choose = (chosen: File | null) => {
    setFile(chosen);
    if (chosen && !path.trim()) setPath(chosen.name);
  };
  return (
    <Dialog title="New entry" onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <label className="field">
          <span>Shelf</span>
          <input
            value={name}
            list={names}
            required
            pattern="[A-Za-z0-9_\-]{1,64}"
            title="1 to 64 letters, digits, - and _"
            placeholder="memory"
            onChange={(event) => setName(event.target.value)}
            data-focus={shelf === null || undefined}
          />
        </label>
        <datalist id={names}>
          {shelves.map((each) => (
            <option key={each.name} value={each.name} />
          ))}
        </datalist>
        <label className="field">
          <span>Path</span>
          <input
            value={path}
            required
            placeholder="recipes/rye.md"
            onChange={(event) => setPath(event.target.value)}
            data-focus={shelf !== null || undefined}
          />
        </label>
        {file === null && (
          <label className="field">
            <span>Text</span>
            <textarea rows={6} value={text} onChange={(event) => setText(event.target.value)} />
          </label>
        )}
        <label className="field">
          <span>{file ? `File, ${bytes(file.size)}` : "Or a file"}</span>
          <input type="file" onChange={(event) => choose(event.target.files?.[0] ?? null)} />
        </label>
        <Refusal problem={create.problem} />
        <div className="row">
          <button type="submit" className="button primary" disabled={create.busy}>
            Put it there
          </button>
          <button type="button" className="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
