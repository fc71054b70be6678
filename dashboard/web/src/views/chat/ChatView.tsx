import { ChevronDownIcon } from "lucide-react";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { WaitingBanner } from "@/approvals/WaitingBanner";
import { useAgency, useThread, useThreadStore } from "@/live/hooks";
import { useQuery } from "@/router/router";
import { isActive } from "@/text/format";
import { Loading } from "@/ui/Empty";
import css from "@/views/chat/ChatView.module.css";
import { Composer } from "@/views/chat/Composer";
import { SidePanel } from "@/views/chat/SidePanel";
import { Transcript } from "@/views/chat/Transcript";
import type { ThreadViewProps } from "@/views/tabs";

/** So near to its end, a transcript follows what is said. */
const NEAR = 120;

export default function ChatView({ agency, thread }: ThreadViewProps) {
  const store = useThreadStore(agency, thread);
  const now = useThread(agency, thread);
  const { threads } = useAgency(agency);
  const [panel] = useQuery("panel");
  const scroller = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const [away, setAway] = useState(false);
  const parent = now.state?.parent?.threadId;
  const by = parent ? (threads.get(parent)?.agentType ?? "parent") : null;

  const toEnd = useCallback(() => {
    const node = scroller.current;
    if (node) node.scrollTop = node.scrollHeight;
  }, []);

  useLayoutEffect(() => {
    if (follows.current) toEnd();
  });

  useEffect(() => {
    const node = scroller.current;
    if (!node) return;
    const watch = new ResizeObserver(() => follows.current && toEnd());
    for (const child of node.children) watch.observe(child);
    watch.observe(node);
    return () => watch.disconnect();
  }, [toEnd]);

  const onScroll = () => {
    const node = scroller.current;
    if (!node) return;
    follows.current = node.scrollHeight - node.scrollTop - node.clientHeight < NEAR;
    setAway(!follows.current);
  };

  return (
    <div className={css.chat} data-panel={panel ?? undefined}>
      <div className={css.middle}>
        <div className={css.said}>
          <div
            ref={scroller}
            className={`${css.scroller} scroll`}
            role="group"
            aria-label="What was said"
            tabIndex={0}
            onScroll={onScroll}
          >
            <div className={css.column}>
              {now.state === null ? <Loading /> : <Transcript agency={agency} thread={thread} now={now} by={by} />}
            </div>
          </div>
          {away && (
            <button
              type="button"
              className={`button small ${css.latest}`}
              onClick={() => {
                follows.current = true;
                toEnd();
              }}
            >
              <ChevronDownIcon size={13} />
              Latest
            </button>
          )}
        </div>
        <WaitingBanner agency={agency} thread={thread} />
        <Composer key={thread} store={store} active={isActive(now.run?.status)} />
      </div>
      <SidePanel agency={agency} thread={thread} now={now} />
    </div>
  );
}
