import type { ReactNode } from "react";
import css from "@/run/Section.module.css";
import { CopyButton } from "@/ui/CopyButton";

/** A piece of text under a title, with a button that copies it. */
export function Section({ title, text, children }: { title: string; text: string; children?: ReactNode }) {
  return (
    <section aria-label={title}>
      <h4 className={css.title}>
        <span className="row">
          {title}
          {children}
        </span>
        <CopyButton text={() => text} label={`Copy ${title.toLowerCase()}`} />
      </h4>
      <pre className={`pre ${css.text}`} tabIndex={0}>
        {text}
      </pre>
    </section>
  );
}
