// Paths as a tree of folders.

interface TreeFile {
  readonly kind: "file";
  readonly name: string;
  readonly path: string;
  readonly size: number;
}

interface TreeFolder {
  readonly kind: "folder";
  readonly name: string;
  readonly path: string;
  readonly children: readonly TreeEntry[];
}

export type TreeEntry = TreeFile | TreeFolder;

interface Making {
  folders: Map<string, Making>;
  files: TreeFile[];
}

/** Folders first, then files, each by name. */
export function treeOf(files: readonly { path: string; size: number }[]): readonly TreeEntry[] {
  const root: Making = { folders: new Map(), files: [] };
  for (const { path, size } of files) {
    const parts = path.split("/").filter(Boolean);
    const name = parts.pop() ?? path;
    let at = root;
    for (const part of parts) {
      const next = at.folders.get(part) ?? { folders: new Map(), files: [] };
      at.folders.set(part, next);
      at = next;
    }
    at.files.push({ kind: "file", name, path, size });
  }
  return entries(root, "");
}

function entries({ folders, files }: Making, above: string): TreeEntry[] {
  const made = [...folders].map(([name, inside]): TreeFolder => {
    const path = `${above}/${name}`;
    return { kind: "folder", name, path, children: entries(inside, path) };
  });
  return [...made.sort(byName), ...[...files].sort(byName)];
}

function byName(a: TreeEntry, b: TreeEntry): number {
  return a.name.localeCompare(b.name, undefined, { numeric: true });
}

/** A path as the gateway keeps it: absolute, without `.`, `..` and empty parts. */
export function tidy(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}
