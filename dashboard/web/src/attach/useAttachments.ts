import { type ClipboardEvent, type DragEvent, useState } from "react";
import { asProblem, type Problem } from "@/api/problem";
import { type Attachment, add } from "@/attach/attachments";

export interface Attachments {
  list: readonly Attachment[];
  problem: Problem | null;
  /** Whether something is held over the place. */
  over: boolean;
  add(files: Iterable<File>): Promise<void>;
  remove(attachment: Attachment): void;
  clear(): void;
  /** For the element on which files are dropped, or into which they are pasted. */
  drop: {
    onDragOver(event: DragEvent): void;
    onDragLeave(event: DragEvent): void;
    onDrop(event: DragEvent): void;
    onPaste(event: ClipboardEvent): void;
  };
}

export function useAttachments(): Attachments {
  const [list, setList] = useState<readonly Attachment[]>([]);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [over, setOver] = useState(false);

  const take = async (files: Iterable<File>) => {
    try {
      setList(await add(list, files));
      setProblem(null);
    } catch (error) {
      setProblem(asProblem(error));
    }
  };

  return {
    list,
    problem,
    over,
    add: take,
    remove: (attachment) => setList(list.filter((each) => each !== attachment)),
    clear: () => setList([]),
    drop: {
      onDragOver(event) {
        if (!event.dataTransfer.types.includes("Files")) return;
        event.preventDefault();
        setOver(true);
      },
      onDragLeave(event) {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOver(false);
      },
      onDrop(event) {
        setOver(false);
        if (!event.dataTransfer.files.length) return;
        event.preventDefault();
        void take(event.dataTransfer.files);
      },
      onPaste(event) {
        if (!event.clipboardData.files.length) return;
        event.preventDefault();
        void take(event.clipboardData.files);
      },
    },
  };
}
