// Colours for code: a plugin that turns the text of a block of code into elements with the names of what they are.

import bash from "highlight.js/lib/languages/bash";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";

const low = createLowlight({ bash, css, diff, go, javascript, json, python, rust, sql, typescript, xml, yaml });

/** Longer ones would be felt while they stream. */
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

function languageOf({ properties }: Node): string | null {
  const classes = Array.isArray(properties?.className) ? (properties.className as unknown[]) : [];
  const found = classes.map(String).find((each) => each.startsWith("language-"));
  const name = found?.slice("language-".length).toLowerCase();
  return name && low.registered(name) ? name : null;
}

function walk(node: Node): void {
  for (const child of node.children ?? []) {
    const language = node.tagName === "pre" && child.tagName === "code" ? languageOf(child) : null;
    const text = language === null ? "" : textOf(child);
    if (language !== null && text.length <= LONGEST) child.children = low.highlight(language, text).children as Node[];
    else walk(child);
  }
}

/** For react-markdown's `rehypePlugins`. */
export function highlight(): (root: unknown) => void {
  return (root) => walk(root as Node);
}
