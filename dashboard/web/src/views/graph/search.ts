import type { GraphNode } from "@/run/runGraph";

/** The nodes whose words hold all words of a search, whatever their case. An empty search finds nothing. */
export function nodesMatching(nodes: readonly GraphNode[], search: string): GraphNode[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  return nodes.filter((node) => {
    const said = `${node.kind} ${node.label} ${node.detail} ${node.status} ${node.seqs.join(" ")}`.toLowerCase();
    return words.every((word) => said.includes(word));
  });
}
