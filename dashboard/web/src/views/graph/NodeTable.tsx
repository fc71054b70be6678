import { memo } from "react";
import type { GraphNode } from "@/run/runGraph";
import { KIND_WORDS, STATUS_WORDS } from "@/run/words";
import { clock, duration } from "@/text/format";
import css from "@/views/graph/NodeTable.module.css";

interface Props {
  nodes: readonly GraphNode[];
  /** Without it, the table is there for those who do not see the graph only. */
  shown: boolean;
  chosen: string | null;
  onChoose(id: string): void;
}

/** The graph in words: every node, in the order in which they began. */
export const NodeTable = memo(function NodeTable({ nodes, shown, chosen, onChoose }: Props) {
  return (
    <div className={shown ? css.scroll : "unseen"}>
      <table className={css.table} aria-label="Nodes of the graph">
        <thead>
          <tr>
            <th scope="col">Kind</th>
            <th scope="col">Name</th>
            <th scope="col">Status</th>
            <th scope="col">Began</th>
            <th scope="col">Took</th>
            <th scope="col">Details</th>
          </tr>
        </thead>
        <tbody>
          {nodes.map((node) => (
            <Row key={node.id} node={node} shown={shown} chosen={chosen === node.id} onChoose={onChoose} />
          ))}
        </tbody>
      </table>
    </div>
  );
});

interface RowProps {
  node: GraphNode;
  shown: boolean;
  chosen: boolean;
  onChoose(id: string): void;
}

const Row = memo(function Row({ node, shown, chosen, onChoose }: RowProps) {
  return (
    <tr data-node={node.id} data-kind={node.kind} data-status={node.status} aria-current={chosen || undefined}>
      <td>
        <span className={css.kind} data-kind={node.kind}>
          {KIND_WORDS[node.kind]}
        </span>
      </td>
      <td>
        {shown ? (
          <button type="button" className={css.name} onClick={() => onChoose(node.id)}>
            {node.label}
          </button>
        ) : (
          node.label
        )}
      </td>
      <td>{STATUS_WORDS[node.status][1]}</td>
      <td className="num">{clock(node.start)}</td>
      <td className="num">{node.end === null ? "" : duration(node.end - node.start)}</td>
      <td className={css.detail}>{node.detail}</td>
    </tr>
  );
}, same);

/** Nodes are made anew with each event, and few of them differ. */
function same(a: RowProps, b: RowProps): boolean {
  return (
    a.shown === b.shown &&
    a.chosen === b.chosen &&
    a.onChoose === b.onChoose &&
    a.node.id === b.node.id &&
    a.node.status === b.node.status &&
    a.node.end === b.node.end &&
    a.node.detail === b.node.detail
  );
}
