import { PencilIcon } from "lucide-react";
import { type FormEvent, useRef, useState } from "react";
import { useAction } from "@/api/hooks";
import { Once } from "@/api/once";
import { fork } from "@/api/threads";
import { useAgencyStore } from "@/live/hooks";
import { navigate } from "@/router/router";
import { to } from "@/router/routes";
import { Dialog } from "@/ui/Dialog";
import { IconButton } from "@/ui/IconButton";
import { Refusal } from "@/ui/Refusal";

interface Props {
  agency: string;
  thread: string;
  message: string;
  text: string;
}

/** Says something in another way: in a new thread, with all that was before it. */
export function EditMessage({ agency, thread, message, text }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <IconButton icon={PencilIcon} label="Edit and run again" small onClick={() => setOpen(true)} />
      {open && (
        <EditDialog agency={agency} thread={thread} message={message} text={text} onClose={() => setOpen(false)} />
      )}
    </>
  );
}

function EditDialog({ agency, thread, message, text, onClose }: Props & { onClose(): void }) {
  const store = useAgencyStore(agency);
  const [said, setSaid] = useState(text);
  const once = useRef(new Once());
  const action = useAction(async () => {
    const body = once.current.body({ beforeMessage: message, messages: [{ content: said.trim() }] });
    const made = await fork(agency, thread, body);
    store.reload();
    onClose();
    navigate(to.thread(agency, made.id));
  });
  return (
    <Dialog title="Edit and run again" onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event: FormEvent) => {
          event.preventDefault();
          void action.run();
        }}
      >
        <p className="soft">A new thread begins with everything before this message. This one stays as it is.</p>
        <label className="field">
          <span>Message</span>
          <textarea rows={6} value={said} required onChange={(event) => setSaid(event.target.value)} data-focus />
        </label>
        <Refusal problem={action.problem} />
        <div className="row">
          <button type="submit" className="button primary" disabled={action.busy}>
            Run in a new thread
          </button>
          <button type="button" className="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
