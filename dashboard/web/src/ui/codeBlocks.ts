// A plugin for react-markdown that colours the blocks of code.

import { highlighted } from "@/ui/highlighter";

/** Colouring a longer block would be felt while it streams. */
const LONGEST = 40_000;

export interface Node {
  type: string;
  tagName?: string;
  value?: string;
  properties?: Record<string, unknown>;
  children?: Node[];
}

export function textOf(node: Node | undefined): string {
  if (node === undefined) return "";
  return node.type === "text" ? (node.value ?? "") : (node.children ?? []).map(textOf).join("");
}

function languageOf({ properties }: Node): string {
  const classes = Array.isArray(properties?.className) ? (properties.className as unknown[]) : [];
  const found = classes.map(String).find((each) => each.startsWith("language-"));
  return found?.slice("language-".length).toLowerCase() ?? "";
}

function colour(code: Node): void {
  const text = textOf(code);
  const tree = text.length <= LONGEST ? highlighted(text, languageOf(code)) : null;
  if (tree) code.children = tree as Node[];
}

function walk(node: Node): void {
  for (const child of node.children ?? []) {
    if (node.tagName === "pre" && child.tagName === "code") colour(child);
    else walk(child);
  }
}

/** For react-markdown's `rehypePlugins`. */
export function codeBlocks(): (root: unknown) => void {
  return (root) => walk(root as Node);
}
