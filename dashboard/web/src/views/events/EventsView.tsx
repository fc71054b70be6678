import { Empty } from "@/ui/Empty";
import type { ThreadViewProps } from "@/views/tabs";

export default function EventsView(_: ThreadViewProps) {
  return <Empty title="Not here yet." />;
}
