// Text in colours, line by line. The highlighter gives a tree and no HTML: the page may not turn text into HTML.

import { common, createLowlight } from "lowlight";

type Tree = ReturnType<Lowlight["highlight"]>;
type Lowlight = ReturnType<typeof createLowlight>;
type TreeNode = Tree["children"][number];

export interface Token {
  readonly text: string;
  /** The highlighter's classes, as `hljs-keyword`; empty for plain text. */
  readonly className: string;
}

const lowlight = createLowlight(common);

export function plainLines(text: string): Token[][] {
  return split(text).map((line) => [{ text: line, className: "" }]);
}

export function highlightedLines(text: string, language: string): Token[][] {
  if (!lowlight.registered(language)) return plainLines(text);
  const lines: Token[][] = [[]];
  walk(lowlight.highlight(language, text).children, "", lines);
  if (lines.length > 1 && lines.at(-1)?.length === 0) lines.pop();
  return lines;
}

/** A line feed ends a line, and begins none. */
function split(text: string): string[] {
  const lines = text.split("\n");
  if (lines.length > 1 && lines.at(-1) === "") lines.pop();
  return lines;
}

function walk(nodes: readonly TreeNode[], className: string, lines: Token[][]): void {
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
