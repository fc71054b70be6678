import type { Json } from "@/api/types";

interface Props {
  label: string;
  hint?: string;
  text: string;
  onChange(text: string): void;
  rows?: number;
}

/** What a field of JSON holds: nothing if it is empty. */
export function readJson(text: string): { value: Json | null } | { problem: string } {
  if (!text.trim()) return { value: null };
  try {
    return { value: JSON.parse(text) as Json };
  } catch (error) {
    return { problem: (error as Error).message };
  }
}

/** JSON that people write, with what is wrong with it. */
export function JsonField({ label, hint, text, onChange, rows = 4 }: Props) {
  const read = readJson(text);
  return (
    <label className="field">
      <span>{label}</span>
      <textarea
        className="code"
        rows={rows}
        spellCheck={false}
        value={text}
        aria-invalid={"problem" in read}
        onChange={(event) => onChange(event.target.value)}
      />
      <small className={"problem" in read ? "bad" : "faint"}>
        {"problem" in read ? `Not JSON yet: ${read.problem}` : hint}
      </small>
    </label>
  );
}
