import { CheckIcon, CopyIcon } from "lucide-react";
import { useState } from "react";

const SHOWN_MS = 1_500;

/** Puts a text into the clipboard, and says so. */
export function CopyButton({
  text,
  label = "Copy",
  className = "",
}: {
  text: () => string;
  label?: string;
  className?: string | undefined;
}) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text());
    setDone(true);
    setTimeout(() => setDone(false), SHOWN_MS);
  };
  const says = done ? "Copied" : label;
  return (
    <button
      type="button"
      className={`button quiet icon small ${className}`}
      aria-label={says}
      title={says}
      onClick={copy}
    >
      {done ? <CheckIcon size={14} /> : <CopyIcon size={14} />}
    </button>
  );
}
