import { useState } from "react";
import type { Agency } from "@/api/types";
import css from "@/app/sidebar/AgencySwitcher.module.css";
import { DeleteAgency, NewAgency, RenameAgency } from "@/app/sidebar/agencyDialogs";
import icon from "@/icon.svg";
import { navigate } from "@/router/router";
import { to } from "@/router/routes";
import { Icon } from "@/ui/Icon";
import { Menu, type MenuItem } from "@/ui/Menu";

/** Which agency is open, the others, and what can be done with them. */
export function AgencySwitcher({ list, current }: { list: readonly Agency[]; current: string | null }) {
  const [dialog, setDialog] = useState<"new" | "rename" | "delete" | null>(null);
  const agency = list.find((each) => each.id === current);
  const close = () => setDialog(null);
  const choices: MenuItem[] = list.map((each) => ({
    label: each.name,
    hint: each.id,
    checked: each.id === current,
    icon: each.id === current ? <Icon name="check" /> : null,
    act: () => navigate(to.agency(each.id)),
  }));
  const own: MenuItem[] = agency
    ? [
        { label: "Rename …", icon: <Icon name="edit" />, act: () => setDialog("rename") },
        { label: "Delete …", icon: <Icon name="trash" />, danger: true, act: () => setDialog("delete") },
      ]
    : [];
  return (
    <div className={css.head}>
      <img src={icon} alt="" width="24" height="24" />
      <Menu
        label={`Agency: ${agency?.name ?? "none"}`}
        className={`button quiet ${css.name}`}
        button={
          <>
            <span className="cut">{agency?.name ?? "none"}</span>
            <Icon name="down" size={13} />
          </>
        }
        items={[
          ...choices,
          ...(choices.length ? (["line"] as const) : []),
          { label: "New agency …", icon: <Icon name="plus" />, act: () => setDialog("new") },
          ...own,
        ]}
      />
      {dialog === "new" && <NewAgency onClose={close} />}
      {dialog === "rename" && agency && <RenameAgency agency={agency} onClose={close} />}
      {dialog === "delete" && agency && <DeleteAgency agency={agency} onClose={close} />}
    </div>
  );
}
