import { ChevronDownIcon, PencilIcon, PlusIcon, Trash2Icon } from "lucide-react";
import { useState } from "react";
import { DeleteAgency, NewAgency, RenameAgency } from "@/agencies/agencyDialogs";
import type { Agency } from "@/api/types";
import css from "@/app/sidebar/AgencySwitcher.module.css";
import icon from "@/icon.svg";
import { navigate } from "@/router/router";
import { to } from "@/router/routes";
import { Menu, type MenuChoice, type MenuItem } from "@/ui/Menu";

/** The open agency, a menu of the others, and what you can do with them. */
export function AgencySwitcher({ list, current }: { list: readonly Agency[]; current: string | null }) {
  const [dialog, setDialog] = useState<"new" | "rename" | "delete" | null>(null);
  const agency = list.find((each) => each.id === current);
  const close = () => setDialog(null);
  const choices: MenuChoice[] = list.map((each) => ({
    label: each.damaged ? `${each.name} (damaged)` : each.name,
    hint: each.id,
    chosen: each.id === current,
    act: () => navigate(to.agency(each.id)),
  }));
  const own: MenuItem[] = agency
    ? [
        { label: "Rename …", icon: <PencilIcon />, act: () => setDialog("rename") },
        { label: "Delete …", icon: <Trash2Icon />, danger: true, act: () => setDialog("delete") },
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
            <ChevronDownIcon size={13} />
          </>
        }
        choices={choices}
        items={[{ label: "New agency …", icon: <PlusIcon />, act: () => setDialog("new") }, ...own]}
      />
      {dialog === "new" && <NewAgency onClose={close} />}
      {dialog === "rename" && agency && <RenameAgency agency={agency} onClose={close} />}
      {dialog === "delete" && agency && <DeleteAgency agency={agency} onClose={close} />}
    </div>
  );
}
