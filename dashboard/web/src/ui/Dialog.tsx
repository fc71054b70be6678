import { XIcon } from "lucide-react";
import { type ReactNode, useEffect, useRef } from "react";
import css from "@/ui/Dialog.module.css";
import { IconButton } from "@/ui/IconButton";

interface Props {
  title: string;
  onClose(): void;
  children: ReactNode;
  /** Without it, the dialog has no way out but its own buttons. */
  closable?: boolean;
  wide?: boolean;
}

/** A modal dialog: the browser's own, which keeps the focus inside and gives it back. */
export function Dialog({ title, onClose, children, closable = true, wide = false }: Props) {
  const node = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = node.current;
    const before = document.activeElement;
    if (dialog && !dialog.open) dialog.showModal();
    dialog?.querySelector<HTMLElement>("[data-focus]")?.focus(); // else the browser takes the first it finds
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={node}
      className={`${css.dialog} ${wide ? css.wide : ""}`}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        if (closable) onClose();
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape" && !closable) event.preventDefault();
      }}
      onMouseDown={(event) => {
        if (closable && event.target === node.current) onClose();
      }}
    >
      <div className={css.inside}>
        <header className={css.head}>
          <h2>{title}</h2>
          {closable && <IconButton icon={XIcon} label="Close" small onClick={onClose} />}
        </header>
        {children}
      </div>
    </dialog>
  );
}
