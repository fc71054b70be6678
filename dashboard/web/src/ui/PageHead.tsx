import type { ReactNode } from "react";
import css from "@/ui/PageHead.module.css";

/** The line above a page: its name, and what can be done there. */
export function PageHead({ title, children }: { title: ReactNode; children?: ReactNode }) {
  return (
    <header className={css.head}>
      <h1>{title}</h1>
      <div className={css.actions}>{children}</div>
    </header>
  );
}
