import { useEffect } from "react";
import css from "@/app/shortcuts.module.css";
import { Dialog } from "@/ui/Dialog";

/** Calls what belongs to a key, unless a person is writing or a dialog is open. */
export function useShortcuts(acts: Readonly<Record<string, () => void>>): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey) return;
      const target = event.target instanceof HTMLElement ? event.target : null;
      if (target?.closest("input, textarea, select, dialog, [contenteditable]")) return;
      const act = acts[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [acts]);
}

const KEYS: readonly [string, string][] = [
  ["/", "Search threads"],
  ["n", "New thread"],
  ["m", "Write a message"],
  ["i", "Inbox of the agency"],
  ["w", "To the first call that waits for you"],
  ["a  e  d  r", "Approve, edit, deny or respond, on a call that waits"],
  ["↑ ↓ ← →", "Move in the tree of threads"],
  ["Enter", "Send; with Shift, a new line"],
  ["?", "This list"],
];

export function Shortcuts({ onClose }: { onClose(): void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl className={css.keys}>
        {KEYS.map(([key, meaning]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
