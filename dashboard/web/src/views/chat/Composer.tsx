import { ArrowUpIcon, ChevronDownIcon } from "lucide-react";
import { type FormEvent, type KeyboardEvent, useEffect, useRef, useState } from "react";
import { useAction } from "@/api/hooks";
import { writeFile } from "@/api/threads";
import type { When } from "@/api/types";
import { AttachButton, AttachmentList } from "@/attach/AttachmentList";
import { binariesOf, filesOf, imagesOf } from "@/attach/attachments";
import { useAttachments } from "@/attach/useAttachments";
import type { ThreadStore } from "@/live/thread";
import { Menu } from "@/ui/Menu";
import { Refusal } from "@/ui/Refusal";
import css from "@/views/chat/Composer.module.css";

const MODES: readonly { when: When; label: string; hint: string }[] = [
  { when: "next_step", label: "Next step", hint: "It joins the run at its next step." },
  { when: "next_run", label: "Next run", hint: "It begins a run of its own when this one has ended." },
  { when: "now", label: "Now", hint: "What goes on is interrupted, and it is heard at once." },
];

const TALLEST = 220;

/** What is half written stays with its thread while the person looks at others. */
const drafts = new Map<string, string>();

/** Where people write. While a run is in progress, they also say when it is to be heard. */
export function Composer({ store, active }: { store: ThreadStore; active: boolean }) {
  const [text, setText] = useState(drafts.get(store.id) ?? "");
  const [when, setWhen] = useState<When>("next_step");
  const attachments = useAttachments();
  const box = useRef<HTMLTextAreaElement>(null);
  const mode = MODES.find((each) => each.when === when);

  // biome-ignore lint/correctness/useExhaustiveDependencies: its height follows what is written
  useEffect(() => {
    drafts.set(store.id, text);
    const node = box.current;
    if (!node) return;
    node.style.height = "auto";
    node.style.height = `${Math.min(TALLEST, node.scrollHeight + 2)}px`;
  }, [text]);

  const action = useAction(async () => {
    const said = text.trim();
    const images = imagesOf(attachments.list);
    if (!said && images.length === 0) return;
    for (const { path, content } of binariesOf(attachments.list))
      await writeFile(store.agency, store.id, path, content);
    await store.say(
      { content: said, ...(images.length ? { images } : {}) },
      filesOf(attachments.list),
      active ? when : "next_step",
    );
    setText((now) => (now.trim() === said ? "" : now));
    attachments.clear();
  });

  const send = (event: FormEvent | KeyboardEvent) => {
    event.preventDefault();
    void action.run();
  };

  return (
    <form className={css.composer} onSubmit={send} {...attachments.drop} data-over={attachments.over || undefined}>
      <AttachmentList attachments={attachments} />
      <Refusal problem={action.problem} />
      <div className={css.box}>
        <AttachButton attachments={attachments} />
        <textarea
          ref={box}
          id="composer"
          className={css.text}
          rows={1}
          aria-label="Message"
          enterKeyHint="send"
          placeholder={active ? "Add to the run …" : "Write a message …"}
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) send(event);
          }}
        />
        {active && (
          <Menu
            label={`When it is heard: ${mode?.label}`}
            className="button quiet small"
            align="right"
            up
            button={
              <>
                {mode?.label}
                <ChevronDownIcon size={12} />
              </>
            }
            choices={MODES.map(({ when: each, label, hint }) => ({
              label,
              hint,
              chosen: each === when,
              act: () => setWhen(each),
            }))}
          />
        )}
        <button type="submit" className="button primary icon" aria-label="Send" title="Send" disabled={action.busy}>
          <ArrowUpIcon />
        </button>
      </div>
    </form>
  );
}
