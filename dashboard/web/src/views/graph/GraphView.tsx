import { Empty } from "@/ui/Empty";
import type { ThreadViewProps } from "@/views/tabs";

export default function GraphView(_: ThreadViewProps) {
  return <Empty title="Not here yet." />;
}
