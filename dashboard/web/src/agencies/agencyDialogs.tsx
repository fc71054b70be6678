import { type FormEvent, useRef, useState } from "react";
import { forgetAgency, putAgency } from "@/agencies/agencyList";
import { createAgency, deleteAgency, renameAgency } from "@/api/agencies";
import { useAction } from "@/api/hooks";
import { Once } from "@/api/once";
import type { Agency } from "@/api/types";
import { navigate } from "@/router/router";
import { to } from "@/router/routes";
import { Confirm } from "@/ui/Confirm";
import { Dialog } from "@/ui/Dialog";
import { Refusal } from "@/ui/Refusal";

interface NameProps {
  title: string;
  name: string;
  deed: string;
  act(name: string): Promise<unknown>;
  onClose(): void;
}

function NameDialog({ title, name, deed, act, onClose }: NameProps) {
  const [text, setText] = useState(name);
  const action = useAction(act);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (await action.run(text.trim())) onClose();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <label className="field">
          <span>Name</span>
          <input value={text} onChange={(event) => setText(event.target.value)} required maxLength={200} data-focus />
        </label>
        <Refusal problem={action.problem} />
        <div className="row">
          <button type="submit" className="button primary" disabled={action.busy}>
            {deed}
          </button>
          <button type="button" className="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

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
