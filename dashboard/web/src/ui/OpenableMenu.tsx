import * as Radix from "@radix-ui/react-dropdown-menu";
import { CheckIcon } from "lucide-react";
import { type ReactNode, useRef } from "react";
import { MenuButton, type MenuItem, type MenuProps } from "@/ui/Menu";
import css from "@/ui/Menu.module.css";

/** A button and its menu. The menu is open at first: the click that asked for it has already happened.
 *
 * Not modal: a modal menu locks scrolling with a <style> element, which the page's policy forbids. Not in a portal:
 * a dialog would cover a menu outside it. */
export default function OpenableMenu(props: MenuProps) {
  const { label, button, className, choices = [], items = [], align = "left", up = false } = props;
  const opener = useRef<HTMLButtonElement>(null);
  const selected = useRef<Pick<MenuItem, "act"> | null>(null);
  // An item acts after the menu is closed and its button has the focus again, so that a dialog which the item opens
  // can give the focus back to the button.
  const onClosed = (event: Event) => {
    if (selected.current === null) return;
    event.preventDefault();
    opener.current?.focus();
    selected.current.act();
    selected.current = null;
  };
  const select = (item: Pick<MenuItem, "act">) => () => {
    selected.current = item;
  };
  return (
    <Radix.Root defaultOpen modal={false}>
      <Radix.Trigger asChild>
        <MenuButton ref={opener} label={label} className={className}>
          {button}
        </MenuButton>
      </Radix.Trigger>
      <Radix.Content
        className={css.list}
        side={up ? "top" : "bottom"}
        align={align === "left" ? "start" : "end"}
        sideOffset={4}
        collisionPadding={8}
        loop
        onCloseAutoFocus={onClosed}
      >
        {choices.length > 0 && (
          <Radix.RadioGroup className={css.choices} value={String(choices.findIndex((each) => each.chosen))}>
            {choices.map((choice, at) => (
              <Radix.RadioItem key={at} className={css.item} value={String(at)} onSelect={select(choice)}>
                <ItemText icon={choice.chosen && <CheckIcon />} label={choice.label} hint={choice.hint} />
              </Radix.RadioItem>
            ))}
          </Radix.RadioGroup>
        )}
        {choices.length > 0 && items.length > 0 && <Radix.Separator className={css.line} />}
        {items.map((item, at) =>
          item === "line" ? (
            <Radix.Separator key={at} className={css.line} />
          ) : (
            <Radix.Item key={at} className={css.item} data-danger={item.danger || undefined} onSelect={select(item)}>
              <ItemText icon={item.icon} label={item.label} hint={item.hint} />
            </Radix.Item>
          ),
        )}
      </Radix.Content>
    </Radix.Root>
  );
}

function ItemText({ icon, label, hint }: { icon: ReactNode; label: string; hint: string | undefined }) {
  return (
    <>
      <span className={css.sign}>{icon}</span>
      <span className={css.words}>
        {label}
        {hint && <span className={css.hint}>{hint}</span>}
      </span>
    </>
  );
}
