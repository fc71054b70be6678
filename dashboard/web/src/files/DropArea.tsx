import { type DragEvent, type ReactNode, useRef, useState } from "react";
import css from "@/files/DropArea.module.css";

/** Takes files with the folder that they are dropped on, "" for none. */
type Take = (folder: string, files: File[]) => void;

interface DropAreaProps {
  label: string;
  /** What dropping does, said while files are held over the area. Without it, nothing can be dropped. */
  invites: string | null;
  onFiles: Take;
  children: ReactNode;
}

/** Where files can be dropped: on a folder of a tree (`data-folder`), or anywhere else in the area. */
export function DropArea({ label, invites, onFiles, children }: DropAreaProps) {
  const [over, setOver] = useState(0);
  const drag = (event: DragEvent, by: number) => {
    if (invites === null || !event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    setOver((before) => Math.max(0, before + by));
  };
  return (
    <div
      className={css.area}
      role="group"
      aria-label={label}
      onDragEnter={(event) => drag(event, 1)}
      onDragOver={(event) => drag(event, 0)}
      onDragLeave={(event) => drag(event, -1)}
      onDropCapture={() => setOver(0)}
      onDrop={(event) => {
        event.preventDefault();
        const folder = (event.target as Element).closest<HTMLElement>("[data-folder]")?.dataset.folder;
        onFiles(folder ?? "", [...event.dataTransfer.files]);
      }}
    >
      {children}
      {over > 0 && <div className={css.over}>{invites}</div>}
    </div>
  );
}

/** The other way to hand in files: choose them. */
export function UploadButton({ label, onFiles }: { label: string; onFiles: Take }) {
  const picker = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" className="button small" onClick={() => picker.current?.click()}>
        Upload
      </button>
      <input
        ref={picker}
        type="file"
        multiple
        hidden
        aria-label={label}
        onChange={(event) => {
          onFiles("", [...(event.target.files ?? [])]);
          event.target.value = "";
        }}
      />
    </>
  );
}
