// The tabs of a thread. Each is a view of its own, loaded when it is first opened.

import { type ComponentType, type LazyExoticComponent, lazy } from "react";
import type { Tab } from "@/router/routes";

export interface ThreadViewProps {
  agency: string;
  thread: string;
}

interface TabView {
  label: string;
  View: LazyExoticComponent<ComponentType<ThreadViewProps>>;
}

export const TAB_VIEWS: Record<Tab, TabView> = {
  chat: { label: "Chat", View: lazy(() => import("@/views/chat/ChatView")) },
  graph: { label: "Graph", View: lazy(() => import("@/views/graph/GraphView")) },
  timeline: { label: "Timeline", View: lazy(() => import("@/views/timeline/TimelineView")) },
  files: { label: "Files", View: lazy(() => import("@/views/files/FilesView")) },
  events: { label: "Events", View: lazy(() => import("@/views/events/EventsView")) },
  state: { label: "State", View: lazy(() => import("@/views/events/StateView")) },
};
