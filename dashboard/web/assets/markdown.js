// A little markdown, as nodes: headings, lists, quotes, code, bold, italics. Anything else stays the text that it is.
// Links and pictures too: what a model writes must not send its reader, or a request, anywhere.

import { h } from "/assets/dom.js";

const FENCE = /^\s*(```|~~~)/;
const HEADING = /^(#{1,6})\s+(\S.*)$/;
const RULE = /^\s*([-*_])(\s*\1){2,}\s*$/;
const ITEM = /^\s*(?:([-*+])|(\d{1,9})[.)])\s+(.*)$/;
const QUOTE = /^\s*>\s?(.*)$/;
const INLINE = /`([^`\n]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*\n]*)\*/g;

/** The nodes of a text. */
export function markdown(text) {
  const lines = text.split("\n");
  const nodes = [];
  let at = 0;
  while (at < lines.length) {
    const read = FENCE.test(lines[at]) ? fence : ITEM.test(lines[at]) && !RULE.test(lines[at]) ? list : block;
    const [node, next] = read(lines, at);
    if (node) nodes.push(node);
    at = next;
  }
  return nodes;
}

function fence(lines, at) {
  const mark = FENCE.exec(lines[at])[1];
  let end = at + 1;
  while (end < lines.length && lines[end].trim() !== mark) end++;
  return [h("pre", { tabindex: "0" }, h("code", {}, lines.slice(at + 1, end).join("\n"))), end + 1];
}

function list(lines, at) {
  const [, bullet, first] = ITEM.exec(lines[at]);
  const items = [];
  let next = at;
  for (; next < lines.length; next++) {
    const found = RULE.test(lines[next]) ? null : ITEM.exec(lines[next]);
    if (found && Boolean(found[1]) === Boolean(bullet)) items.push([found[3]]);
    else if (!found && /^\s+\S/.test(lines[next])) items.at(-1).push(lines[next].trim());
    else break;
  }
  const made = items.map((parts) => h("li", {}, inline(parts.join("\n"))));
  return [bullet ? h("ul", {}, made) : h("ol", { start: first }, made), next];
}

function block(lines, at) {
  const line = lines[at];
  if (!line.trim()) return [null, at + 1];
  if (RULE.test(line)) return [h("hr"), at + 1];
  const heading = HEADING.exec(line);
  if (heading) return [h(`h${Math.min(6, heading[1].length + 2)}`, {}, inline(heading[2])), at + 1];
  if (QUOTE.test(line)) return quote(lines, at);
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !begins(lines[end])) end++;
  return [h("p", {}, inline(lines.slice(at, end).join("\n"))), end];
}

function quote(lines, at) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end++;
  const inside = lines.slice(at, end).map((line) => QUOTE.exec(line)[1]);
  return [h("blockquote", {}, inline(inside.join("\n"))), end];
}

const begins = (line) => [FENCE, HEADING, RULE, ITEM, QUOTE].some((pattern) => pattern.test(line));

function inline(text) {
  const nodes = [];
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    const [all, code, bold, italics] = found;
    nodes.push(text.slice(at, found.index));
    nodes.push(code ? h("code", {}, code) : bold ? h("strong", {}, bold) : h("em", {}, italics));
    at = found.index + all.length;
  }
  return [...nodes, text.slice(at)];
}
