import { ChevronRightIcon, FileIcon } from "lucide-react";
import css from "@/files/FileTree.module.css";
import type { TreeEntry } from "@/files/tree";
import { bytes } from "@/text/format";

interface Props {
  entries: readonly TreeEntry[];
  chosen: string | null;
  onChoose(path: string): void;
}

export function FileTree({ entries, ...rest }: Props) {
  return (
    <ul className={css.list}>
      {entries.map((entry) => (
        <li key={`${entry.kind} ${entry.path}`}>
          <Entry entry={entry} {...rest} />
        </li>
      ))}
    </ul>
  );
}

function Entry({ entry, ...rest }: Omit<Props, "entries"> & { entry: TreeEntry }) {
  const { chosen, onChoose } = rest;
  if (entry.kind === "file") {
    return (
      <button
        type="button"
        className={css.file}
        aria-current={chosen === entry.path || undefined}
        title={entry.path}
        onClick={() => onChoose(entry.path)}
      >
        <FileIcon size={14} />
        <span className="cut grow">{entry.name}</span>
        <span className="faint num">{bytes(entry.size)}</span>
      </button>
    );
  }
  return (
    <details className={css.folder} data-folder={entry.path} open>
      <summary title={entry.path}>
        <ChevronRightIcon size={12} />
        <span className="cut">{entry.name}</span>
      </summary>
      <FileTree entries={entry.children} {...rest} />
    </details>
  );
}
