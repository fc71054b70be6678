import { type FormEvent, useState } from "react";
import { useAction } from "@/api/hooks";
import { Dialog } from "@/ui/Dialog";
import { Refusal } from "@/ui/Refusal";

interface Props {
  title: string;
  label?: string;
  name: string;
  deed: string;
  /** Whether it may be left empty. */
  optional?: boolean;
  hint?: string;
  act(name: string): Promise<unknown>;
  onClose(): void;
}

/** Asks for a name. */
export function NameDialog({ title, label = "Name", name, deed, optional = false, hint, act, onClose }: Props) {
  const [text, setText] = useState(name);
  const action = useAction(act);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (await action.run(text.trim())) onClose();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <label className="field">
          <span>{label}</span>
          <input
            value={text}
            onChange={(event) => setText(event.target.value)}
            required={!optional}
            maxLength={200}
            data-focus
          />
          {hint && <small className="faint">{hint}</small>}
        </label>
        <Refusal problem={action.problem} />
        <div className="row">
          <button type="submit" className="button primary" disabled={action.busy}>
            {deed}
          </button>
          <button type="button" className="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
