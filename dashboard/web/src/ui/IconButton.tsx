import type { ButtonHTMLAttributes } from "react";
import { Icon, type IconName } from "@/ui/Icon";

type Props = ButtonHTMLAttributes<HTMLButtonElement> & { icon: IconName; label: string; small?: boolean };

/** A button that is a sign; its label is told to those who do not see it, and on hovering. */
export function IconButton({ icon, label, small = false, className = "", ...rest }: Props) {
  const classes = `button quiet icon${small ? " small" : ""} ${className}`;
  return (
    <button type="button" className={classes} aria-label={label} title={label} {...rest}>
      <Icon name={icon} size={small ? 14 : 16} />
    </button>
  );
}
