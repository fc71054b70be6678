import type { ReactNode } from "react";
import css from "@/ui/Empty.module.css";

/** In the place of something that is not there: what is the matter, and what to do. */
export function Empty({ title, children, alert }: { title: string; children?: ReactNode; alert?: boolean }) {
  return (
    <div className={css.empty} role={alert ? "alert" : undefined}>
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** While something is loaded; it shows itself only if that takes a moment, so that nothing flickers. */
export function Loading({ what = "Loading" }: { what?: string }) {
  return (
    <div className={css.loading} role="status">
      <span className={css.spinner} aria-hidden="true" />
      {what} …
    </div>
  );
}
