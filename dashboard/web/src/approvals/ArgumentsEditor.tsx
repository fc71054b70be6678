import { useEffect, useId, useState } from "react";
import { useLoad } from "@/api/hooks";
import { getState } from "@/api/threads";
import type { JsonObject } from "@/api/types";
import { type Parsed, parse, problems } from "@/approvals/checkArguments";

interface Props {
  agency: string;
  thread: string;
  tool: string;
  text: string;
  onChange(text: string): void;
  /** Whether the arguments can be sent, as far as is known here. */
  onChecked(parsed: Parsed, faults: readonly string[]): void;
}

const MOST_ROWS = 18;

/** Arguments as JSON, checked against the tool's schema while they are written. */
export function ArgumentsEditor({ agency, thread, tool, text, onChange, onChecked }: Props) {
  const schema = useSchema(agency, thread, tool);
  const [faults, setFaults] = useState<readonly string[]>([]);
  const id = useId();

  useEffect(() => {
    let stale = false;
    const parsed = parse(text);
    const found = "problem" in parsed ? Promise.resolve([parsed.problem]) : problems(parsed.value, schema);
    void found.then((said) => {
      if (stale) return;
      setFaults(said);
      onChecked(parsed, said);
    });
    return () => {
      stale = true;
    };
  }, [text, schema, onChecked]);

  return (
    <div className="stack">
      <textarea
        className="code"
        aria-label="Arguments as JSON"
        aria-invalid={faults.length > 0}
        aria-describedby={id}
        rows={Math.min(MOST_ROWS, text.split("\n").length + 1)}
        spellCheck={false}
        value={text}
        onChange={(event) => onChange(event.target.value)}
        autoFocus
      />
      <div id={id} role="status" className={faults.length ? "bad" : "faint"}>
        {faults.length ? faults.map((fault) => <p key={fault}>{fault}</p>) : schema && "Fits the tool’s schema."}
      </div>
    </div>
  );
}

/** The schema of the tool's arguments; null until it is loaded. Without it, the gateway alone checks them. */
function useSchema(agency: string, thread: string, tool: string): JsonObject | null {
  const { data } = useLoad(`${agency}/${thread}`, () => getState(agency, thread));
  return data?.state.tools.find((each) => each.name === tool)?.parameters ?? null;
}
