import { type FormEvent, useRef, useState } from "react";
import { useAction } from "@/api/hooks";
import { Once } from "@/api/once";
import { createThread, invoke, writeFile } from "@/api/threads";
import { AttachButton, AttachmentList } from "@/attach/AttachmentList";
import { binariesOf, filesOf, imagesOf } from "@/attach/attachments";
import { useAttachments } from "@/attach/useAttachments";
import { useAgency, useAgencyStore } from "@/live/hooks";
import { Link, navigate } from "@/router/router";
import { to } from "@/router/routes";
import css from "@/threads/NewThread.module.css";
import { Dialog } from "@/ui/Dialog";
import { Refusal } from "@/ui/Refusal";
import { UnattendedMark } from "@/ui/UnattendedMark";

/** Starts a thread: which agent, what to do, and files to do it with. */
export function NewThreadForm({ agency, onDone, focus }: { agency: string; onDone?(): void; focus?: boolean }) {
  const store = useAgencyStore(agency);
  const { blueprints, threads } = useAgency(agency);
  const active = blueprints.filter((each) => each.status === "active");
  const [chosen, setChosen] = useState<string | null>(null);
  const [text, setText] = useState("");
  const attachments = useAttachments();
  const once = useRef(new Once());
  const latest = [...threads.values()].find((each) => each.parent === null)?.agentType;
  const agent =
    active.find((each) => each.name === chosen) ?? active.find((each) => each.name === latest) ?? active[0] ?? null;

  const action = useAction(async () => {
    if (agent === null) return;
    const binaries = binariesOf(attachments.list);
    const images = imagesOf(attachments.list);
    const message = { content: text.trim(), ...(images.length ? { images } : {}) };
    const messages = message.content || images.length ? [message] : [];
    const files = filesOf(attachments.list);
    const late = binaries.length > 0 && messages.length > 0; // it must have its files before it begins
    const made = await createThread(
      agency,
      once.current.body({ agentType: agent.name, messages: late ? [] : messages, ...(late ? {} : { files }) }),
    );
    for (const { path, content } of binaries) await writeFile(agency, made.id, path, content);
    if (late) await invoke(agency, made.id, { messages, files });
    once.current.done();
    store.reload();
    navigate(to.thread(agency, made.id));
  });

  const submit = async (event?: FormEvent) => {
    event?.preventDefault();
    if (await action.run()) onDone?.();
  };

  if (active.length === 0) {
    return (
      <p className="soft">
        This agency has no active blueprint. <Link href={to.page(agency, "blueprints")}>Add an agent</Link>, or serve a
        system that has one.
      </p>
    );
  }
  return (
    <form className="stack" onSubmit={submit} {...attachments.drop} data-over={attachments.over || undefined}>
      <label className="field">
        <span>Agent</span>
        <select value={agent?.name ?? ""} onChange={(event) => setChosen(event.target.value)}>
          {active.map(({ name }) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <p className={`${css.about} faint`}>
        {agent?.description} <UnattendedMark tools={agent?.unattendedTools ?? []} />
      </p>
      <label className="field">
        <span>First message</span>
        <textarea
          rows={4}
          placeholder="What should it do? Files can be dropped here."
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) void submit();
          }}
          data-focus={focus || undefined}
        />
      </label>
      <AttachmentList attachments={attachments} />
      <Refusal problem={action.problem} />
      <div className="row">
        <button type="submit" className="button primary" disabled={action.busy}>
          Start
        </button>
        <AttachButton attachments={attachments} />
      </div>
    </form>
  );
}

export function NewThreadDialog({ agency, onClose }: { agency: string; onClose(): void }) {
  return (
    <Dialog title="New thread" onClose={onClose}>
      <NewThreadForm agency={agency} onDone={onClose} focus />
    </Dialog>
  );
}
