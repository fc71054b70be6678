import type { LucideIcon } from "lucide-react";
import type { ButtonHTMLAttributes } from "react";

type Props = ButtonHTMLAttributes<HTMLButtonElement> & { icon: LucideIcon; label: string; small?: boolean };

/** A button with an icon only. Its label is its accessible name and its tooltip. */
export function IconButton({ icon: Icon, label, small = false, className = "", ...rest }: Props) {
  const classes = `button quiet icon${small ? " small" : ""} ${className}`;
  return (
    <button type="button" className={classes} aria-label={label} title={label} {...rest}>
      <Icon size={small ? 14 : 16} />
    </button>
  );
}
