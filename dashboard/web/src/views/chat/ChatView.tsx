import { useThreadState } from "@/live/hooks";
import type { ThreadViewProps } from "@/views/tabs";

export default function ChatView({ agency, thread }: ThreadViewProps) {
  const { state } = useThreadState(agency, thread);
  return <pre className="pre scroll">{JSON.stringify(state, null, 2)}</pre>;
}
