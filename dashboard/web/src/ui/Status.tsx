import type { RunStatus } from "@/api/types";
import { statusOf, type Tone } from "@/text/format";
import css from "@/ui/Status.module.css";

/** A dot and words in a tone's colour. */
export function Mark({ tone, children }: { tone: Tone; children: string }) {
  return (
    <span className={`${css.mark} status`} data-tone={tone}>
      <Dot tone={tone} />
      {children}
    </span>
  );
}

export function Dot({ tone }: { tone: Tone }) {
  return <span className={css.dot} data-tone={tone} aria-hidden="true" />;
}

/** A run's status. */
export function Status({ status, reason }: { status: RunStatus; reason?: string | null }) {
  const [tone, words] = statusOf({ status, reason: reason ?? null });
  return <Mark tone={tone}>{words}</Mark>;
}
