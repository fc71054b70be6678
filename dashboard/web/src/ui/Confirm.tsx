import type { ReactNode } from "react";
import { useAction } from "@/api/hooks";
import { Dialog } from "@/ui/Dialog";
import { Refusal } from "@/ui/Refusal";

interface Props {
  title: string;
  children: ReactNode;
  /** What the button says: the deed itself. */
  deed: string;
  act(): Promise<unknown>;
  onClose(): void;
}

/** Asks before something that cannot be undone. */
export function Confirm({ title, children, deed, act, onClose }: Props) {
  const action = useAction(act);
  return (
    <Dialog title={title} onClose={onClose}>
      <div className="soft">{children}</div>
      <Refusal problem={action.problem} />
      <div className="row">
        <button
          type="button"
          className="button danger"
          disabled={action.busy}
          onClick={async () => (await action.run()) && onClose()}
        >
          {deed}
        </button>
        <button type="button" className="button" onClick={onClose}>
          Cancel
        </button>
      </div>
    </Dialog>
  );
}
