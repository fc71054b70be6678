// A new thread with the history of this one up to a point; with another message there, that is "edit and run again".

import { useState } from "react";
import { Once } from "@/api/once";
import { Problem } from "@/api/problem";
import { fork } from "@/api/threads";
import type { Message } from "@/api/types";
import { navigate } from "@/router/router";
import { to } from "@/router/routes";
import { Dialog } from "@/ui/Dialog";
import { IconButton } from "@/ui/IconButton";
import { Refusal } from "@/ui/Refusal";
import { useAction } from "@/ui/useAction";
import css from "@/views/events/ForkDialog.module.css";

/** Where the new thread begins to differ. */
export type ForkPoint =
  | { readonly afterSeq: number }
  /** With the message left out, to be said in other words. */
  | { readonly beforeMessage: string; readonly text: string };

interface Props {
  agency: string;
  thread: string;
  point: ForkPoint;
  onClose(): void;
}

export function ForkDialog({ agency, thread, point, onClose }: Props) {
  const again = "beforeMessage" in point;
  const [text, setText] = useState(again ? point.text : "");
  const [once] = useState(() => new Once()); // trying again makes no second thread
  const action = useAction(async () => {
    const where = again ? { beforeMessage: point.beforeMessage } : { afterSeq: point.afterSeq };
    const said = text.trim() ? { messages: [{ role: "user" as const, content: text }] } : {};
    const made = await fork(agency, thread, once.body({ ...where, ...said })).catch(explain);
    onClose();
    navigate(to.thread(agency, made.id));
  });
  return (
    <Dialog title={again ? "Edit and run again" : "Fork this thread"} onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void action.run();
        }}
      >
        <p className="soft">
          {again
            ? "A new thread gets everything before this message, and begins with what you write here. This thread stays as it is."
            : `A new thread gets everything up to event ${point.afterSeq}. This thread stays as it is.`}
        </p>
        <label className="field">
          <span>{again ? "Message" : "First message, if it is to go on at once"}</span>
          <textarea
            className={css.message}
            rows={again ? 8 : 4}
            value={text}
            required={again}
            onChange={(event) => setText(event.target.value)}
          />
        </label>
        <Refusal problem={action.problem} />
        <div className="row">
          <button type="submit" className="button primary" disabled={action.busy}>
            {again ? "Run again" : "Fork"}
          </button>
          <button type="button" className="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function explain(error: unknown): never {
  if (error instanceof Problem && error.status === 405) throw new Problem(405, "This gateway cannot fork threads yet.");
  throw error;
}

/** A small button that forks the thread after an event. */
export function ForkButton({ agency, thread, seq }: { agency: string; thread: string; seq: number }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <IconButton icon="fork" label={`Fork after event ${seq}`} small onClick={() => setOpen(true)} />
      {open && <ForkDialog agency={agency} thread={thread} point={{ afterSeq: seq }} onClose={() => setOpen(false)} />}
    </>
  );
}

/** For a message of the transcript: say it in other words, in a new thread. Only a person's own can be. */
export function EditAndRerun({ agency, thread, message }: { agency: string; thread: string; message: Message }) {
  const [open, setOpen] = useState(false);
  if (message.role !== "user" || message.origin !== null) return null;
  const point = { beforeMessage: message.id, text: message.content };
  return (
    <>
      <IconButton icon="edit" label="Edit and run again" small onClick={() => setOpen(true)} />
      {open && <ForkDialog agency={agency} thread={thread} point={point} onClose={() => setOpen(false)} />}
    </>
  );
}
