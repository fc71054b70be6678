// The lines of a text, in the colours of its language.

import { common } from "lowlight";
import { addLanguages, type CodeTree, highlighted } from "@/ui/highlighter";

addLanguages(common);

export interface Token {
  readonly text: string;
  /** The highlighter's classes, as `hljs-keyword`; empty for plain text. */
  readonly className: string;
}

export function plainLines(text: string): Token[][] {
  return split(text).map((line) => [{ text: line, className: "" }]);
}

export function highlightedLines(text: string, language: string): Token[][] {
  const tree = highlighted(text, language);
  if (tree === null) return plainLines(text);
  const lines: Token[][] = [[]];
  walk(tree, "", lines);
  if (lines.length > 1 && lines.at(-1)?.length === 0) lines.pop();
  return lines;
}

/** A line feed at the end of a text begins no other line. */
function split(text: string): string[] {
  const lines = text.split("\n");
  if (lines.length > 1 && lines.at(-1) === "") lines.pop();
  return lines;
}

function walk(nodes: Readonly<CodeTree>, className: string, lines: Token[][]): void {
  for (const node of nodes) {
    if (node.type === "text") {
      for (const [at, piece] of node.value.split("\n").entries()) {
        if (at > 0) lines.push([]);
        if (piece) lines.at(-1)?.push({ text: piece, className });
      }
    } else if (node.type === "element") {
      const given = node.properties.className;
      walk(node.children, Array.isArray(given) ? given.join(" ") : className, lines);
    }
  }
}
