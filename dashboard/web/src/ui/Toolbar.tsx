// The line of controls above a view, the same for all views: a search, options, buttons.

import { SearchIcon } from "lucide-react";
import type { FormEvent, ReactNode } from "react";
import css from "@/ui/Toolbar.module.css";

interface ToolbarProps {
  label: string;
  /** As slim as the head of a panel beside it. */
  slim?: boolean;
  children: ReactNode;
}

export function Toolbar({ label, slim = false, children }: ToolbarProps) {
  return (
    <div className={css.toolbar} role="toolbar" aria-label={label} data-slim={slim || undefined}>
      {children}
    </div>
  );
}

interface ToolbarSearchProps {
  label: string;
  placeholder: string;
  value: string;
  onChange(text: string): void;
  /** What the enter key does. */
  onEnter?(): void;
  /** What was found. */
  children?: ReactNode;
}

export function ToolbarSearch({ label, placeholder, value, onChange, onEnter, children }: ToolbarSearchProps) {
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onEnter?.();
  };
  return (
    <form className={css.search} role="search" onSubmit={submit}>
      <SearchIcon size={14} />
      <input
        type="search"
        aria-label={label}
        placeholder={placeholder}
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
      {children}
    </form>
  );
}

/** Options that belong together; the legend is for screen readers. */
export function ToolbarOptions({ legend, children }: { legend: string; children: ReactNode }) {
  return (
    <fieldset className={css.options}>
      <legend className="unseen">{legend}</legend>
      {children}
    </fieldset>
  );
}

interface ToolbarOptionProps {
  checked: boolean;
  onChange(checked: boolean): void;
  children: ReactNode;
  /** One of several, of which one is chosen: the name that they share. */
  choiceOf?: string;
}

export function ToolbarOption({ checked, onChange, children, choiceOf }: ToolbarOptionProps) {
  return (
    <label className={css.option}>
      <input
        type={choiceOf ? "radio" : "checkbox"}
        name={choiceOf}
        checked={checked}
        onChange={(event) => onChange(event.target.checked)}
      />
      {children}
    </label>
  );
}

export function ToolbarButtons({ children, hidden }: { children: ReactNode; hidden?: boolean }) {
  return (
    <span className={css.buttons} hidden={hidden}>
      {children}
    </span>
  );
}

interface ZoomButtonsProps {
  /** Undefined where it cannot be zoomed any further. */
  onOut: (() => void) | undefined;
  onIn: (() => void) | undefined;
  onFit(): void;
}

export function ZoomButtons({ onOut, onIn, onFit }: ZoomButtonsProps) {
  return (
    <>
      <ZoomButton label="Zoom out" onClick={onOut}>
        −
      </ZoomButton>
      <ZoomButton label="Zoom in" onClick={onIn}>
        +
      </ZoomButton>
      <button type="button" className="button small" onClick={onFit}>
        Fit
      </button>
    </>
  );
}

function ZoomButton({
  label,
  onClick,
  children,
}: {
  label: string;
  onClick: (() => void) | undefined;
  children: string;
}) {
  return (
    <button
      type="button"
      className="button small icon"
      aria-label={label}
      title={label}
      disabled={onClick === undefined}
      onClick={onClick}
    >
      {children}
    </button>
  );
}

/** The set with or without a member, as a checkbox says. */
export function toggled<T>(set: ReadonlySet<T>, member: T, isIn: boolean): ReadonlySet<T> {
  const next = new Set(set);
  if (isIn) next.add(member);
  else next.delete(member);
  return next;
}
