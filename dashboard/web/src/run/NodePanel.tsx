import { XIcon } from "lucide-react";
import type { ThreadEvent } from "@/api/types";
import { Link } from "@/router/router";
import { to } from "@/router/routes";
import { EventJson } from "@/run/EventJson";
import { ForkButton } from "@/run/ForkButton";
import { ModelCallButton } from "@/run/ModelCall";
import css from "@/run/NodePanel.module.css";
import type { GraphNode } from "@/run/runGraph";
import { CallTraces, EventTraces } from "@/run/Traces";
import { KIND_WORDS, STATUS_WORDS } from "@/run/words";
import { clock, duration } from "@/text/format";
import { IconButton } from "@/ui/IconButton";
import { Mark } from "@/ui/Status";
import { useNow } from "@/ui/useNow";

interface Props {
  agency: string;
  thread: string;
  node: GraphNode;
  /** All of the thread's, in the order of their seq. */
  events: readonly ThreadEvent[];
  onClose(): void;
}

/** What is known of a node: the events that tell of it. */
export function NodePanel({ agency, thread, node, events, onClose }: Props) {
  const [tone, words] = STATUS_WORDS[node.status];
  const first = events[0]?.seq ?? 1;
  const told = node.seqs.map((seq) => events[seq - first]).filter((event) => event !== undefined);
  return (
    <aside className={css.panel} aria-label="Details of the node">
      <header className={css.head}>
        <div className="grow">
          <div className="faint">{KIND_WORDS[node.kind]}</div>
          <h2 className="cut" title={node.label}>
            {node.label}
          </h2>
        </div>
        <IconButton icon={XIcon} label="Close the details" small onClick={onClose} />
      </header>
      <dl className={css.facts}>
        <dt>Status</dt>
        <dd>
          <Mark tone={tone}>{words}</Mark>
        </dd>
        <dt>Began</dt>
        <dd className="num">{clock(node.start)}</dd>
        <dt>{node.end === null ? "So far" : "Took"}</dt>
        <dd className="num">
          <Took node={node} />
        </dd>
        {node.detail && (
          <>
            <dt>Details</dt>
            <dd className={css.detail}>{node.detail}</dd>
          </>
        )}
      </dl>
      {node.childThread && (
        <Link className="button small" href={to.thread(agency, node.childThread)}>
          Open {node.label}’s thread
        </Link>
      )}
      {node.kind === "model" && <ModelCallButton agency={agency} thread={thread} seq={node.seqs[0] ?? 0} />}
      <NodeTraces agency={agency} thread={thread} node={node} told={told} />
      <h3 className="title">Events</h3>
      <ol className={css.events}>
        {told.map((event) => (
          <li key={event.seq}>
            <div className="row">
              <span className="grow cut">
                <span className="faint num">{event.seq}</span> {event.type}
              </span>
              <ForkButton agency={agency} thread={thread} seq={event.seq} />
            </div>
            <EventJson event={event} />
          </li>
        ))}
      </ol>
    </aside>
  );
}

/** What was raised and printed where the node stands for a call of a tool, or for a run that failed. */
function NodeTraces({ agency, thread, node, told }: Omit<Props, "events" | "onClose"> & { told: ThreadEvent[] }) {
  const [first] = told;
  if (node.kind === "tool" && typeof first?.data.callId === "string")
    return (
      <CallTraces agency={agency} thread={thread} call={first.data.callId} seq={first.seq} changed={node.status} />
    );
  const failed = node.kind === "run" ? told.find(({ type }) => type === "agent.error") : undefined;
  return failed ? <EventTraces agency={agency} thread={thread} seq={failed.seq} /> : null;
}

function Took({ node }: { node: GraphNode }) {
  return node.end === null ? <Passing since={node.start} /> : duration(node.end - node.start);
}

function Passing({ since }: { since: number }) {
  return duration(Math.max(0, useNow() - since));
}
