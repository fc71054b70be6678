// The graph on its canvas. Only what has changed is touched, so that a run with thousands of nodes can be watched live.

import cytoscape, { type Core, type ElementDefinition, type NodeSingular } from "cytoscape";
import type { GraphEdge } from "@/run/runGraph";
import { SIGNS } from "@/run/words";
import type { Drawing, Drawn } from "@/views/graph/folding";
import { isFold } from "@/views/graph/folding";
import { detour, type Position, segments } from "@/views/graph/layout";
import { FONT, styleOf, TEXT_WIDTH } from "@/views/graph/style";

const LABEL_CHARS = 21;
const MARGIN = 28;
const READABLE = 0.55;
const LARGEST = 1.15;
const EXPORT_PIXELS = 12_000;

/** Cytoscape adds a style element to the page, which its policy forbids, unless there is something with this id. */
const STYLE_ID = "__________cytoscape_stylesheet";

interface Listener {
  chosen(id: string | null): void;
}

export class GraphCanvas {
  readonly #cy: Core;
  #touched = false;
  #shown = 0;

  constructor(
    readonly container: HTMLElement,
    listener: Listener,
  ) {
    if (!document.getElementById(STYLE_ID)) {
      const stand = document.createElement("template");
      stand.id = STYLE_ID;
      document.head.append(stand);
    }
    this.#cy = cytoscape({
      container,
      layout: { name: "preset" },
      minZoom: 0.03,
      maxZoom: 3,
      autoungrabify: true,
      boxSelectionEnabled: false,
      selectionType: "single",
      hideEdgesOnViewport: false,
      textureOnViewport: false,
    });
    this.theme();
    this.#cy.on("tap", "node", (event) => listener.chosen((event.target as NodeSingular).id()));
    this.#cy.on("tap", (event) => event.target === this.#cy && listener.chosen(null));
    this.#cy.on("mouseover", "node", () => this.#point("pointer"));
    this.#cy.on("mouseout", "node", () => this.#point(""));
    // What a person does to the view is theirs: from then on it does not follow the run by itself.
    container.addEventListener("wheel", () => this.#touch(), { passive: true });
    container.addEventListener("pointerdown", () => this.#touch());
  }

  destroy(): void {
    this.#cy.destroy();
  }

  /** Take the colours of the theme as it is now. */
  theme(): void {
    this.#cy.style(styleOf(getComputedStyle(this.container).fontFamily));
  }

  /** Draw this in the place of what is there. */
  show({ nodes, edges }: Drawing, positions: ReadonlyMap<string, Position>): void {
    const cy = this.#cy;
    const kept = new Set<string>();
    const fresh: ElementDefinition[] = [];
    cy.batch(() => {
      for (const node of nodes) {
        kept.add(node.id);
        const place = positions.get(node.id) ?? { x: 0, y: 0 };
        const known = cy.getElementById(node.id);
        if (known.empty()) fresh.push({ group: "nodes", data: dataOf(node), position: { ...place } });
        else update(known as NodeSingular, node, place);
      }
      for (const edge of edges) {
        kept.add(edge.id);
        const known = cy.getElementById(edge.id);
        const way = wayOf(edge, positions);
        if (known.empty()) fresh.push({ group: "edges", data: { ...edge, ...way } });
        else if (known.data("weights") !== way?.weights) known.removeData("weights distances").data(way ?? {});
      }
      if (cy.elements().length + fresh.length > kept.size) {
        cy.elements()
          .filter((each) => !kept.has(each.id()))
          .remove();
      }
      cy.add(fresh);
    });
    if (nodes.length && (this.#shown === 0 || (!this.#touched && nodes.length !== this.#shown))) this.home();
    this.#shown = nodes.length;
    this.container.dataset.drawn = String(cy.nodes().length); // tests cannot see what is on a canvas
  }

  select(id: string | null): void {
    this.#cy.batch(() => {
      this.#cy.$(":selected").unselect();
      if (id !== null) this.#cy.getElementById(id).select();
    });
  }

  /** Make these stand out from the rest; with none, everything is as usual. */
  mark(ids: readonly string[]): void {
    const cy = this.#cy;
    cy.batch(() => {
      cy.elements().removeClass("dim hit");
      if (!ids.length) return;
      const hits = new Set(ids);
      cy.elements().forEach((each) => {
        each.addClass(hits.has(each.id()) ? "hit" : "dim");
      });
    });
  }

  /** Bring a node into the middle, at a size at which it can be read. */
  centre(id: string): void {
    const node = this.#cy.getElementById(id);
    if (node.empty()) return;
    this.#touch();
    this.#cy.zoom(Math.max(this.#cy.zoom(), 0.8));
    this.#cy.center(node);
  }

  /** Everything at once. */
  fit(): void {
    this.#cy.fit(undefined, MARGIN);
    if (this.#cy.zoom() > LARGEST) {
      this.#cy.zoom(LARGEST);
      this.#cy.center();
    }
  }

  /** Everything, or as much of it as can be read: then the latest. */
  home(): void {
    this.fit();
    const cy = this.#cy;
    if (cy.zoom() >= READABLE) return;
    const { x1, x2, y1, y2 } = cy.elements().boundingBox();
    const zoom = Math.max(READABLE, Math.min(1, (cy.width() - 2 * MARGIN) / (x2 - x1)));
    const [top, bottom] = [MARGIN - y1 * zoom, cy.height() - MARGIN - y2 * zoom];
    cy.viewport({ zoom, pan: { x: MARGIN - x1 * zoom, y: Math.min(top, bottom) } });
  }

  zoom(factor: number): void {
    this.#touch();
    const middle = { x: this.#cy.width() / 2, y: this.#cy.height() / 2 };
    this.#cy.zoom({ level: this.#cy.zoom() * factor, renderedPosition: middle });
  }

  resize(): void {
    this.#cy.resize();
    if (!this.#touched) this.home();
  }

  /** The whole graph as a picture. */
  async png(background: string): Promise<Blob> {
    const { w, h } = this.#cy.elements().boundingBox();
    const scale = Math.min(2, EXPORT_PIXELS / Math.max(w, h, 1));
    return this.#cy.png({ output: "blob-promise", full: true, scale, bg: background });
  }

  #touch(): void {
    this.#touched = true;
  }

  #point(cursor: string): void {
    this.container.style.cursor = cursor;
  }
}

function update(known: NodeSingular, node: Drawn, place: Position): void {
  const data = dataOf(node);
  if (known.data("text") !== data.text || known.data("status") !== data.status) known.data(data);
  const { x, y } = known.position();
  if (x !== place.x || y !== place.y) known.position({ ...place });
}

function dataOf(node: Drawn): { id: string; kind: string; status: string; text: string } {
  return { id: node.id, kind: node.kind, status: node.status, text: textOf(node) };
}

function textOf(node: Drawn): string {
  if (isFold(node)) return `${node.label}\n${node.detail}`;
  if (node.kind === "tick") return `${node.step}`;
  const bold = node.kind === "run";
  const first = cut(`${SIGNS[node.status]}${node.label}`, bold);
  return node.detail && node.kind !== "child" ? `${first}\n${cut(node.detail, bold)}` : first;
}

let pen: CanvasRenderingContext2D | null | undefined;

/** As much of a text as fits into a node, in one line. */
function cut(text: string, bold: boolean): string {
  const line = text.replace(/\s+/g, " ").trim();
  if (pen === undefined) pen = document.createElement("canvas").getContext("2d");
  if (!pen) return line.length > LABEL_CHARS ? `${line.slice(0, LABEL_CHARS - 1)}…` : line;
  pen.font = `${bold ? 600 : 400} ${FONT}px ${getComputedStyle(document.body).fontFamily}`;
  if (pen.measureText(line).width <= TEXT_WIDTH) return line;
  let shown = line.slice(0, 2 * LABEL_CHARS);
  while (shown && pen.measureText(`${shown}…`).width > TEXT_WIDTH) shown = shown.slice(0, -1);
  return `${shown.trimEnd()}…`;
}

/** How an edge goes that does not simply lead to the right. */
function wayOf(
  { source, target }: GraphEdge,
  positions: ReadonlyMap<string, Position>,
): { weights: string; distances: string } | undefined {
  const [from, to] = [positions.get(source), positions.get(target)];
  if (from === undefined || to === undefined || to.x > from.x) return undefined;
  const { weights, distances } = segments(from, to, detour(from, to));
  return { weights: weights.join(" "), distances: distances.join(" ") };
}
