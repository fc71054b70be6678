// What people with the role of an operator see of a defect: tracebacks, and what code has printed. Others see nothing.

import { useLoad } from "@/api/hooks";
import { getToolCall, getTraces } from "@/api/threads";
import { Section } from "@/run/Section";

interface Trace {
  attempt: number;
  traceback: string;
  output: string;
}

function TraceParts({ traces }: { traces: readonly Trace[] }) {
  return traces.map(({ attempt, traceback, output }, at) => {
    const which = attempt > 1 ? `, attempt ${attempt}` : "";
    return (
      <div key={at} className="stack">
        {output && <Section title={`Output${which}`} text={output} />}
        {traceback && <Section title={`Traceback${which}`} text={traceback} />}
      </div>
    );
  });
}

interface CallProps {
  agency: string;
  thread: string;
  call: string;
  /** An event of the call, if there may be several with its id. */
  seq?: number | undefined;
  /** Load again when this changes. */
  changed?: unknown;
}

/** What a call of a tool has raised and printed. */
export function CallTraces({ agency, thread, call, seq, changed }: CallProps) {
  const { data } = useLoad(`${agency}/${thread}/${call}/${seq}`, () => getToolCall(agency, thread, call, seq), {
    changed,
  });
  return <TraceParts traces={data?.traces ?? []} />;
}

/** What was raised when an event happened that tells of no call: the end of a run. */
export function EventTraces({ agency, thread, seq }: { agency: string; thread: string; seq: number }) {
  const { data } = useLoad(`${agency}/${thread}/${seq}`, () => getTraces(agency, thread, seq - 1));
  return <TraceParts traces={(data ?? []).filter((each) => each.seq === seq)} />;
}
