import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import css from "@/ui/Menu.module.css";

export interface MenuItem {
  label: string;
  icon?: ReactNode;
  danger?: boolean;
  /** One of several, of which one is chosen. */
  checked?: boolean;
  hint?: string;
  act(): void;
}

interface Props {
  /** What the button says to those who do not see it. */
  label: string;
  button: ReactNode;
  className?: string;
  items: readonly (MenuItem | "line")[];
  align?: "left" | "right";
  up?: boolean;
}

/** A button that opens a list of things to do. */
export function Menu({ label, button, className = "button quiet icon", items, align = "left", up = false }: Props) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  const id = useId();

  useEffect(() => {
    if (!open) return;
    root.current?.querySelector<HTMLElement>("[role^=menuitem]")?.focus();
    const outside = (event: PointerEvent) => {
      if (!root.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);

  const close = () => {
    setOpen(false);
    opener.current?.focus();
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (!open) return;
    const all = [...(root.current?.querySelectorAll<HTMLElement>("[role^=menuitem]") ?? [])];
    const at = all.indexOf(document.activeElement as HTMLElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") close();
    else if (event.key === "Tab") setOpen(false);
    else if (step) all[(at + step + all.length) % all.length]?.focus();
    else return;
    if (event.key !== "Tab") event.preventDefault();
    event.stopPropagation();
  };

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys are those of the menu inside it
    <div className={css.root} ref={root} onKeyDown={onKeyDown} role="presentation">
      <button
        type="button"
        ref={opener}
        className={className}
        aria-label={label}
        title={label}
        aria-haspopup="menu"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        onClick={() => setOpen(!open)}
      >
        {button}
      </button>
      {open && (
        <div className={css.list} id={id} role="menu" aria-label={label} data-align={align} data-up={up || undefined}>
          {items.map((item, at) =>
            item === "line" ? (
              <hr key={at} className={css.line} />
            ) : (
              // biome-ignore lint/a11y/useAriaPropsSupportedByRole: it is there with the role that has it
              <button
                key={at}
                type="button"
                role={item.checked === undefined ? "menuitem" : "menuitemradio"}
                aria-checked={item.checked}
                tabIndex={-1}
                className={css.item}
                data-danger={item.danger || undefined}
                onClick={() => {
                  close();
                  item.act();
                }}
              >
                <span className={css.sign}>{item.icon}</span>
                <span className={css.words}>
                  {item.label}
                  {item.hint && <span className={css.hint}>{item.hint}</span>}
                </span>
              </button>
            ),
          )}
        </div>
      )}
    </div>
  );
}
