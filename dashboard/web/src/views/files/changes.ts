// The lines that differ between two texts, with a few around them.

import { structuredPatch } from "diff";

export interface DiffLine {
  readonly kind: "same" | "added" | "removed" | "skipped";
  readonly text: string;
  /** Line numbers before and after; null where there is no such line. */
  readonly before: number | null;
  readonly after: number | null;
}

export interface Changes {
  readonly lines: readonly DiffLine[];
  readonly added: number;
  readonly removed: number;
}

const AROUND = 3;
/** Texts that have nothing in common take long to compare, and the comparison says little. */
const MOST_MS = 1_500;

/** Null if the texts are too different to be compared in a moment. */
export function changesOf(before: string, after: string): Changes | null {
  const patch = structuredPatch("a", "b", before, after, "", "", { context: AROUND, timeout: MOST_MS });
  if (!patch) return null;
  const lines: DiffLine[] = [];
  let [added, removed, shown] = [0, 0, 0];
  for (const hunk of patch.hunks) {
    let [left, right] = [hunk.oldStart, hunk.newStart];
    if (right > shown + 1)
      lines.push({ kind: "skipped", text: `lines ${shown + 1} to ${right - 1}`, before: null, after: null });
    for (const line of hunk.lines) {
      const text = line.slice(1);
      if (line.startsWith("+")) {
        lines.push({ kind: "added", text, before: null, after: right++ });
        added += 1;
      } else if (line.startsWith("-")) {
        lines.push({ kind: "removed", text, before: left++, after: null });
        removed += 1;
      } else if (line.startsWith(" ")) {
        lines.push({ kind: "same", text, before: left++, after: right++ });
      }
    }
    shown = right - 1;
  }
  return { lines, added, removed };
}
