// A button that opens a menu. The menu itself (Radix: keys, typing ahead, focus, position) is a file of its own that is
// loaded when a person points at the button or reaches it with the keyboard, so that the first load stays small.

import { type ComponentProps, lazy, type ReactNode, Suspense, useState } from "react";
import css from "@/ui/Menu.module.css";

export interface MenuItem {
  label: string;
  icon?: ReactNode;
  danger?: boolean;
  hint?: string;
  act(): void;
}

/** One of several items of which one is chosen. */
export interface MenuChoice extends Omit<MenuItem, "icon"> {
  chosen: boolean;
}

export interface MenuProps {
  /** The accessible name of the button and its menu. */
  label: string;
  button: ReactNode;
  className?: string;
  /** They come first, a line below them. */
  choices?: readonly MenuChoice[];
  items?: readonly (MenuItem | "line")[];
  align?: "left" | "right";
  up?: boolean;
}

const load = () => import("@/ui/OpenableMenu");
const OpenableMenu = lazy(load);

export function Menu(props: MenuProps) {
  const [used, setUsed] = useState(false);
  const { label, button, className } = props;
  const preload = () => void load();
  // The same button before and while the menu's file is loaded: a click on it is not lost.
  const plain = (
    <MenuButton
      label={label}
      className={className}
      aria-haspopup="menu"
      aria-expanded={false}
      onPointerEnter={preload}
      onFocus={preload}
      onClick={() => setUsed(true)}
    >
      {button}
    </MenuButton>
  );
  return (
    <div className={css.root}>
      {used ? (
        <Suspense fallback={plain}>
          <OpenableMenu {...props} />
        </Suspense>
      ) : (
        plain
      )}
    </div>
  );
}

type MenuButtonProps = ComponentProps<"button"> & { label: string; className: string | undefined };

export function MenuButton({ label, className = "button quiet icon", ...rest }: MenuButtonProps) {
  return <button type="button" className={className} aria-label={label} title={label} {...rest} />;
}
