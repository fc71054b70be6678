import { Trash2Icon } from "lucide-react";
import { type FormEvent, useState } from "react";
import { createKey, listKeys, revokeKey } from "@/api/agencies";
import { useAction, useLoad } from "@/api/hooks";
import type { Key, KeyRole } from "@/api/types";
import { dateTime } from "@/text/format";
import { Confirm } from "@/ui/Confirm";
import { CopyButton } from "@/ui/CopyButton";
import { IconButton } from "@/ui/IconButton";
import { Refusal } from "@/ui/Refusal";
import css from "@/views/settings/SettingsView.module.css";

/** Keys of the agency, for programs and people who should see nothing else. */
export function KeysCard({ agency }: { agency: string }) {
  const { data, problem, reload } = useLoad(agency, () => listKeys(agency));
  const [made, setMade] = useState<string | null>(null);
  const [name, setName] = useState("");
  const [role, setRole] = useState<KeyRole>("operator");
  const [revoking, setRevoking] = useState<Key | null>(null);
  const create = useAction(async () => {
    setMade((await createKey(agency, name.trim(), role)).key);
    setName("");
    await reload();
  });
  if (problem?.status === 403) return null;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void create.run();
  };
  return (
    <section className="card" aria-labelledby="keys-title">
      <h2 className={css.heading} id="keys-title">
        Keys
      </h2>
      <div className="stack">
        <p className="soft">
          A key opens this agency and no other: viewers look, operators talk and approve, admins change.
        </p>
        <Refusal problem={problem} />
        {data && data.length > 0 && (
          <div className={css.wide}>
            <table className="table">
              <thead>
                <tr>
                  <th>Name</th>
                  <th>Role</th>
                  <th>Since</th>
                  <th>
                    <span className="unseen">Revoke</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {data.map((key) => (
                  <tr key={key.id}>
                    <td>
                      {key.name} <span className="faint mono">{key.id}</span>
                    </td>
                    <td>{key.role}</td>
                    <td>{dateTime(key.createdAt)}</td>
                    <td>
                      <IconButton
                        icon={Trash2Icon}
                        label={`Revoke ${key.name}`}
                        small
                        onClick={() => setRevoking(key)}
                      />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
        {made && (
          <div className={css.key} role="status">
            <p>The key is shown this once:</p>
            <p className="row">
              <code>{made}</code>
              <CopyButton text={() => made} label="Copy the key" />
            </p>
          </div>
        )}
        <form className={css.pair} onSubmit={submit} aria-label="New key">
          <label className="field">
            <span>Name</span>
            <input value={name} required maxLength={200} onChange={(event) => setName(event.target.value)} />
          </label>
          <label className="field">
            <span>Role</span>
            <select value={role} onChange={(event) => setRole(event.target.value as KeyRole)}>
              <option value="viewer">viewer</option>
              <option value="operator">operator</option>
              <option value="admin">admin</option>
            </select>
          </label>
          <button type="submit" className="button" disabled={create.busy}>
            Create a key
          </button>
        </form>
        <Refusal problem={create.problem} />
      </div>
      {revoking && (
        <Confirm
          title="Revoke the key"
          deed={`Revoke “${revoking.name}”`}
          onClose={() => setRevoking(null)}
          act={async () => {
            await revokeKey(agency, revoking.id);
            await reload();
          }}
        >
          Clients that use it are shut out at once.
        </Confirm>
      )}
    </section>
  );
}
