import type { ThreadEvent } from "@/api/types";
import css from "@/run/EventJson.module.css";
import { CopyButton } from "@/ui/CopyButton";

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
