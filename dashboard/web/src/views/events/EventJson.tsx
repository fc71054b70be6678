import type { ThreadEvent } from "@/api/types";
import { CopyButton } from "@/ui/CopyButton";
import css from "@/views/events/EventJson.module.css";

/** An event as it is on the wire. */
export function EventJson({ event }: { event: ThreadEvent }) {
  const text = () => JSON.stringify(event, null, 2);
  return (
    <div className={css.json}>
      <pre className="pre" tabIndex={0}>
        {text()}
      </pre>
      <CopyButton className={css.copy} label="Copy the event" text={text} />
    </div>
  );
}
