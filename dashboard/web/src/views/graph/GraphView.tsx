import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import type { ThreadEvent } from "@/api/types";
import { useThreadEvents } from "@/live/hooks";
import { useQuery } from "@/router/router";
import { NodePanel } from "@/run/NodePanel";
import { type GraphNode, graphOf, KINDS, type RunGraph } from "@/run/runGraph";
import { KIND_WORDS } from "@/run/words";
import { count } from "@/text/format";
import { Empty, Loading } from "@/ui/Empty";
import { saveFile } from "@/ui/saveFile";
import { Toolbar, ToolbarButtons, ToolbarSearch, ZoomButtons } from "@/ui/Toolbar";
import { resolvedColor, useTheme } from "@/ui/theme";
import { fold } from "@/views/graph/folding";
import css from "@/views/graph/GraphView.module.css";
import { GraphCanvas } from "@/views/graph/graphCanvas";
import { layout, lineWidth } from "@/views/graph/layout";
import { NodeTable } from "@/views/graph/NodeTable";
import { nodesMatching } from "@/views/graph/search";
import type { ThreadViewProps } from "@/views/tabs";

const ZOOM = 1.3;

export default function GraphView({ agency, thread }: ThreadViewProps) {
  const { events, complete } = useThreadEvents(agency, thread);
  const graph = useMemo(() => graphOf(complete ? events : []), [events, complete]);
  if (!complete || !events.length) return <Loading what="Loading the events" />; // every thread has some
  if (graph.nodes.length) return <Graph agency={agency} thread={thread} events={events} graph={graph} />;
  return (
    <Empty title="Nothing has run yet.">
      <p>The graph grows as the thread works: write it a message.</p>
    </Empty>
  );
}

interface Props extends ThreadViewProps {
  events: readonly ThreadEvent[];
  graph: RunGraph;
}

function Graph({ agency, thread, events, graph }: Props) {
  const settled = useDeferredValue(graph); // the table is long, and the picture goes first
  const [chosen, setChosen] = useQuery("node");
  const [search, setSearch] = useState("");
  const [table, setTable] = useState(false);
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const hits = useMemo(() => nodesMatching(graph.nodes, search), [graph, search]);
  const node = useMemo(() => graph.nodes.find(({ id }) => id === chosen) ?? null, [graph, chosen]);

  const drawing = useMemo(() => fold(graph, opened), [graph, opened]);
  const choose = useCallback(
    (id: string | null) => {
      if (id?.startsWith("fold:")) setOpened((before) => new Set([...before, id]));
      else setChosen(id);
    },
    [setChosen],
  );

  const canvas = useRef<HTMLDivElement>(null);
  const graphCanvas = useRef<GraphCanvas | null>(null);
  const chooser = useRef(choose);
  chooser.current = choose;
  const [width, setWidth] = useState(0);

  useEffect(() => {
    const container = canvas.current;
    if (container === null) return;
    const made = new GraphCanvas(container, { chosen: (id) => chooser.current(id) });
    graphCanvas.current = made;
    const watcher = new ResizeObserver(() => {
      setWidth(container.clientWidth);
      made.resize();
    });
    watcher.observe(container);
    return () => {
      watcher.disconnect();
      made.destroy();
      graphCanvas.current = null;
    };
  }, []);

  const theme = useTheme();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the colours are those of the theme
  useEffect(() => graphCanvas.current?.theme(), [theme]);

  useEffect(() => {
    if (!width) return;
    const { nodes, edges } = drawing;
    graphCanvas.current?.show(drawing, layout(nodes, edges, lineWidth(nodes.length, width)));
  }, [drawing, width]);

  // What a link or a search leads to is brought into sight, and what hides it is opened.
  const linked = useRef(chosen);
  useEffect(() => {
    if (!width) return;
    const drawn = drawing.nodes.some(({ id }) => id === chosen);
    graphCanvas.current?.select(drawn ? chosen : null);
    if (linked.current === null) return;
    const hider = drawing.hidden.get(linked.current);
    if (hider) setOpened((before) => new Set([...before, hider]));
    else {
      if (drawn) graphCanvas.current?.centre(linked.current);
      linked.current = null;
    }
  }, [chosen, drawing, width]);
  useEffect(() => {
    if (!width) return;
    graphCanvas.current?.mark(hits.map(({ id }) => drawing.hidden.get(id) ?? id));
  }, [hits, drawing, width]);

  const [at, setAt] = useState(0);
  const next = () => {
    const hit = hits[at % hits.length];
    if (!hit) return;
    setAt(at + 1);
    linked.current = hit.id;
    setChosen(hit.id);
    if (hit.id === chosen) graphCanvas.current?.centre(hit.id);
  };

  const folded = drawing.hidden.size > 0;
  return (
    <div className={css.view}>
      <Toolbar label="Graph">
        <ToolbarSearch
          label="Search the graph"
          placeholder="Search"
          value={search}
          onChange={(text) => {
            setSearch(text);
            setAt(0);
          }}
          onEnter={next}
        >
          <span className="faint num" role="status">
            {search.trim() && count(hits.length, "hit")}
          </span>
        </ToolbarSearch>
        <Legend nodes={graph.nodes} />
        <ToolbarButtons>
          {(folded || opened.size > 0) && (
            <button
              type="button"
              className="button small"
              onClick={() => setOpened(folded ? new Set([...opened, ...drawing.hidden.values()]) : new Set())}
            >
              {folded ? "Unfold all" : "Fold"}
            </button>
          )}
          <button type="button" className="button small" aria-pressed={table} onClick={() => setTable(!table)}>
            Table
          </button>
          <ToolbarButtons hidden={table}>
            <ZoomButtons
              onOut={() => graphCanvas.current?.zoom(1 / ZOOM)}
              onIn={() => graphCanvas.current?.zoom(ZOOM)}
              onFit={() => graphCanvas.current?.fit()}
            />
            <button
              type="button"
              className="button small"
              title="Save the graph as a picture"
              onClick={async () => {
                const made = await graphCanvas.current?.png(resolvedColor("--bg"));
                if (made) saveFile(made, `${thread}-graph.png`);
              }}
            >
              PNG
            </button>
          </ToolbarButtons>
        </ToolbarButtons>
      </Toolbar>
      <div className={css.body}>
        <div
          className={css.canvas}
          ref={canvas}
          hidden={table}
          role="img"
          aria-label={`Graph of ${count(graph.nodes.length, "node")}; the table of nodes says the same`}
        />
        <NodeTable nodes={settled.nodes} shown={table} chosen={chosen} onChoose={setChosen} />
        {node && (
          <NodePanel agency={agency} thread={thread} node={node} events={events} onClose={() => setChosen(null)} />
        )}
      </div>
    </div>
  );
}

function Legend({ nodes }: { nodes: readonly GraphNode[] }) {
  const counts = new Map<string, number>();
  for (const { kind } of nodes) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return (
    <ul className={css.legend}>
      {KINDS.filter((kind) => counts.has(kind)).map((kind) => (
        <li key={kind} data-kind={kind}>
          {count(counts.get(kind) ?? 0, KIND_WORDS[kind].toLowerCase(), kind === "child" ? "children" : undefined)}
        </li>
      ))}
    </ul>
  );
}
