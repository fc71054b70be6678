import { Empty } from "@/ui/Empty";
import type { ThreadViewProps } from "@/views/tabs";

export default function TimelineView(_: ThreadViewProps) {
  return <Empty title="Not here yet." />;
}
