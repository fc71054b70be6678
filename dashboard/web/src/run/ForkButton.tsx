// A new thread with the history of this one up to an event. Saying a message in other words is the transcript's own.

import { GitForkIcon } from "lucide-react";
import { useState } from "react";
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
  /** The last event that the new thread has. */
  seq: number;
}

/** A small button that forks the thread after an event. */
export function ForkButton(props: Props) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <IconButton icon={GitForkIcon} label={`Fork after event ${props.seq}`} small onClick={() => setOpen(true)} />
      {open && <ForkDialog {...props} onClose={() => setOpen(false)} />}
    </>
  );
}

function ForkDialog({ agency, thread, seq, onClose }: Props & { onClose(): void }) {
  const store = useAgencyStore(agency);
  const [text, setText] = useState("");
  const [once] = useState(() => new Once()); // trying again makes no second thread
  const action = useAction(async () => {
    const said = text.trim() ? { messages: [{ content: text.trim() }] } : {};
    const made = await fork(agency, thread, once.body({ afterSeq: seq, ...said }));
    store.reload();
    onClose();
    navigate(to.thread(agency, made.id));
  });
  return (
    <Dialog title="Fork this thread" onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void action.run();
        }}
      >
        <p className="soft">A new thread gets everything up to event {seq}. This one stays as it is.</p>
        <label className="field">
          <span>Message, if it is to go on at once</span>
          <textarea rows={4} value={text} onChange={(event) => setText(event.target.value)} />
        </label>
        <Refusal problem={action.problem} />
        <div className="row">
          <button type="submit" className="button primary" disabled={action.busy}>
            Fork
          </button>
          <button type="button" className="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
