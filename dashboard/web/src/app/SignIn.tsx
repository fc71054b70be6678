import { type FormEvent, useState } from "react";
import { listAgencies } from "@/api/agencies";
import { useAction } from "@/api/hooks";
import { Problem } from "@/api/problem";
import { secret } from "@/api/secret";
import { Dialog } from "@/ui/Dialog";
import { Refusal } from "@/ui/Refusal";

/** Asks for the secret until it is the right one. Only this tab keeps it. */
export function SignIn({ onDone }: { onDone(): void }) {
  const [text, setText] = useState("");
  const action = useAction(async () => {
    secret.set(text);
    try {
      await listAgencies();
    } catch (error) {
      secret.clear();
      if (error instanceof Problem && error.status === 401) throw new Problem(401, "That is not the secret.");
      throw error;
    }
  });
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (await action.run()) onDone();
  };
  return (
    <Dialog title="Sign in" onClose={() => {}} closable={false}>
      <form className="stack" onSubmit={submit}>
        <p className="soft">This gateway wants its secret, or a key of one of its agencies.</p>
        <label className="field">
          <span>Secret</span>
          <input
            type="password"
            autoComplete="current-password"
            value={text}
            onChange={(event) => setText(event.target.value)}
            required
            data-focus
          />
        </label>
        <Refusal problem={action.problem} />
        <button type="submit" className="button primary" disabled={action.busy}>
          Sign in
        </button>
      </form>
    </Dialog>
  );
}
