import { FileIcon, PaperclipIcon, XIcon } from "lucide-react";
import { type ChangeEvent, useRef } from "react";
import css from "@/attach/AttachmentList.module.css";
import type { Attachments } from "@/attach/useAttachments";
import { bytes } from "@/text/format";
import { IconButton } from "@/ui/IconButton";
import { Refusal } from "@/ui/Refusal";

export function AttachmentList({ attachments }: { attachments: Attachments }) {
  return (
    <>
      {attachments.list.length > 0 && (
        <ul className={css.list} aria-label="Attached files">
          {attachments.list.map((each) => (
            <li key={each.name} className={css.item}>
              {each.kind === "image" ? (
                <img className={css.thumb} src={`data:${each.image.mediaType};base64,${each.image.data}`} alt="" />
              ) : (
                <FileIcon size={14} />
              )}
              <span className="cut">{each.name}</span>
              <span className="faint">{bytes(each.size)}</span>
              <IconButton icon={XIcon} label={`Remove ${each.name}`} small onClick={() => attachments.remove(each)} />
            </li>
          ))}
        </ul>
      )}
      <Refusal problem={attachments.problem} />
    </>
  );
}

export function AttachButton({ attachments }: { attachments: Attachments }) {
  const input = useRef<HTMLInputElement>(null);
  const pick = (event: ChangeEvent<HTMLInputElement>) => {
    void attachments.add([...(event.target.files ?? [])]);
    event.target.value = "";
  };
  return (
    <>
      <input ref={input} type="file" multiple hidden onChange={pick} aria-label="Files to attach" />
      <IconButton icon={PaperclipIcon} label="Attach files" onClick={() => input.current?.click()} />
    </>
  );
}
