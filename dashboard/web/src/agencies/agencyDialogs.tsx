import { useRef } from "react";
import { forgetAgency, putAgency } from "@/agencies/agencyList";
import { createAgency, deleteAgency, renameAgency } from "@/api/agencies";
import { Once } from "@/api/once";
import type { Agency } from "@/api/types";
import { navigate } from "@/router/router";
import { to } from "@/router/routes";
import { Confirm } from "@/ui/Confirm";
import { NameDialog } from "@/ui/NameDialog";

export function NewAgency({ onClose }: { onClose(): void }) {
  const once = useRef(new Once());
  const create = async (name: string) => {
    const made = await createAgency(once.current.body({ name }));
    putAgency(made);
    navigate(to.agency(made.id));
  };
  return <NameDialog title="New agency" name="" deed="Create" act={create} onClose={onClose} />;
}

export function RenameAgency({ agency, onClose }: { agency: Agency; onClose(): void }) {
  const rename = async (name: string) => putAgency(await renameAgency(agency.id, name));
  return <NameDialog title="Rename the agency" name={agency.name} deed="Rename" act={rename} onClose={onClose} />;
}

export function DeleteAgency({ agency, onClose }: { agency: Agency; onClose(): void }) {
  const remove = async () => {
    await deleteAgency(agency.id);
    navigate(to.start());
    forgetAgency(agency.id);
  };
  return (
    <Confirm title="Delete the agency" deed={`Delete “${agency.name}”`} act={remove} onClose={onClose}>
      All its threads, blueprints, schedules and keys go with it. This cannot be undone.
    </Confirm>
  );
}
