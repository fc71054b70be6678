// The one highlighter: it knows the languages that agents write most. A view that shows more of them adds them, so that
// its own file carries their grammars and the chat stays small.
//
// It gives a tree and never HTML: the page's policy forbids turning text into HTML.

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
import "@/ui/highlighter.css";

const lowlight = createLowlight({ bash, css, diff, go, javascript, json, python, rust, sql, typescript, xml, yaml });

export type CodeTree = ReturnType<typeof lowlight.highlight>["children"];

export const addLanguages = (grammars: Parameters<typeof createLowlight>[0]) => grammars && lowlight.register(grammars);

/** The text as nested elements, each with a class such as `hljs-keyword`; null if the language is unknown. */
export function highlighted(text: string, language: string): CodeTree | null {
  return lowlight.registered(language) ? lowlight.highlight(language, text).children : null;
}
