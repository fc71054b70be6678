// What the graph looks like, in the colours of the theme. A canvas knows no CSS variables, so it is made anew with it.

import type { StylesheetJson } from "cytoscape";
import { resolvedColor } from "@/ui/theme";
import { NODE_WIDTH } from "@/views/graph/layout";

export const FONT = 12;
export const TEXT_WIDTH = NODE_WIDTH - 12;

export function styleOf(font: string): StylesheetJson {
  const color = resolvedColor;
  const kinds = (["run", "model", "tool", "approval", "child"] as const).map((kind) => ({
    selector: `node[kind = "${kind}"]`,
    style: { "border-color": color(`--kind-${kind}`), "background-color": color(`--kind-${kind}`) },
  }));
  return [
    {
      selector: "node",
      style: {
        shape: "round-rectangle",
        width: NODE_WIDTH,
        height: 40,
        "background-color": color("--bg-raised"),
        "background-opacity": 0.13,
        "border-width": 1.5,
        "border-color": color("--line-strong"),
        label: "data(text)",
        color: color("--text"),
        "font-family": font,
        "font-size": FONT,
        "line-height": 1.25,
        "text-valign": "center",
        "text-halign": "center",
        "text-wrap": "wrap",
        "text-max-width": `${NODE_WIDTH}px`,
        "min-zoomed-font-size": 5,
      },
    },
    ...kinds,
    {
      selector: 'node[kind = "run"]',
      style: { "background-opacity": 0.22, "font-weight": 600, "border-width": 2 },
    },
    {
      selector: 'node[kind = "tick"]',
      style: {
        shape: "ellipse",
        width: 32,
        height: 32,
        "border-color": color("--line-strong"),
        color: color("--text-soft"),
      },
    },
    { selector: 'node[kind = "approval"]', style: { shape: "cut-rectangle" } },
    { selector: 'node[kind = "child"]', style: { "border-style": "double", "border-width": 4 } },
    {
      selector: 'node[kind = "fold"]',
      style: { "border-style": "dashed", color: color("--text-soft"), "background-opacity": 0 },
    },
    { selector: 'node[status = "running"]', style: { "border-style": "dashed", "border-width": 2.5 } },
    {
      selector: 'node[status = "waiting"]',
      style: { "border-color": color("--wait"), "border-width": 3 },
    },
    {
      selector: 'node[status = "failed"], node[status = "denied"]',
      style: { "border-color": color("--bad"), "background-color": color("--bad"), "border-width": 2 },
    },
    { selector: 'node[status = "canceled"]', style: { "border-color": color("--idle"), "border-style": "dotted" } },
    {
      selector: 'node[status = "lost"]',
      style: {
        "border-color": color("--wait"),
        "border-style": "dotted",
        "border-width": 2.5,
        "background-opacity": 0,
      },
    },
    {
      selector: "edge",
      style: {
        width: 1.3,
        "line-color": color("--line-strong"),
        "target-arrow-color": color("--line-strong"),
        "target-arrow-shape": "triangle",
        "arrow-scale": 0.8,
        "curve-style": "round-taxi",
        "taxi-direction": "rightward",
        "taxi-turn": 14,
        "taxi-turn-min-distance": 4,
      },
    },
    // From the end of a line to the beginning of a later one.
    {
      selector: "edge[weights]",
      style: {
        "curve-style": "round-segments",
        "segment-weights": "data(weights)",
        "segment-distances": "data(distances)",
        "segment-radii": "10",
        "edge-distances": "node-position",
        "source-endpoint": "90deg",
        "target-endpoint": "0deg",
      },
    },
    {
      selector: 'edge[kind = "spawn"], edge[kind = "return"]',
      style: {
        "line-color": color("--kind-child"),
        "target-arrow-color": color("--kind-child"),
        "line-style": "dashed",
        width: 1.6,
      },
    },
    { selector: 'edge[kind = "return"]', style: { "line-style": "dotted", "target-arrow-shape": "vee" } },
    { selector: ".dim", style: { opacity: 0.22 } },
    {
      selector: "node.hit",
      style: { "border-color": color("--accent"), "border-width": 3, "border-style": "solid" },
    },
    {
      selector: "node:selected",
      style: { "outline-width": 3, "outline-color": color("--accent"), "outline-offset": 3, "outline-opacity": 1 },
    },
    { selector: "core", style: { "active-bg-opacity": 0 } },
  ] as StylesheetJson;
}
