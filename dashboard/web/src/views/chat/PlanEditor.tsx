import { PencilIcon, PlusIcon, XIcon } from "lucide-react";
import { useState } from "react";
import { useAction } from "@/api/hooks";
import { editState } from "@/api/threads";
import type { Todo } from "@/api/types";
import { useThreadStore } from "@/live/hooks";
import { TODO_WORDS } from "@/run/todos";
import { Dialog } from "@/ui/Dialog";
import { IconButton } from "@/ui/IconButton";
import { Refusal } from "@/ui/Refusal";
import css from "@/views/chat/SidePanel.module.css";

interface Props {
  agency: string;
  thread: string;
  todos: readonly Todo[];
}

/** Lets a person change the plan. The agent is told; while it is at work, the gateway refuses. */
export function PlanEditor(props: Props) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <IconButton icon={PencilIcon} label="Edit the plan" small onClick={() => setOpen(true)} />
      {open && <PlanDialog {...props} onClose={() => setOpen(false)} />}
    </>
  );
}

function PlanDialog({ agency, thread, todos, onClose }: Props & { onClose(): void }) {
  const store = useThreadStore(agency, thread);
  const [begun] = useState(todos);
  const [plan, setPlan] = useState<readonly Todo[]>(todos.length ? todos : [{ content: "", status: "pending" }]);
  const change = (at: number, todo: Partial<Todo>) =>
    setPlan(plan.map((each, n) => (n === at ? { ...each, ...todo } : each)));
  const save = useAction(async () => {
    const wanted = plan.filter(({ content }) => content.trim());
    const change = { todos: wanted.map(({ content, status }) => ({ content, status: status ?? "pending" })) };
    await editState(agency, thread, change, (state) => state.todos, begun);
    store.refresh();
    onClose();
  });
  return (
    <Dialog title="Edit the plan" onClose={onClose} wide>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void save.run();
        }}
      >
        <ol className={css.editor}>
          {plan.map((todo, at) => (
            <li key={at} className="row">
              <select
                aria-label={`Status of step ${at + 1}`}
                value={todo.status ?? "pending"}
                onChange={(event) => change(at, { status: event.target.value as NonNullable<Todo["status"]> })}
              >
                {Object.entries(TODO_WORDS).map(([status, words]) => (
                  <option key={status} value={status}>
                    {words}
                  </option>
                ))}
              </select>
              <input
                className="grow"
                aria-label={`Step ${at + 1}`}
                value={todo.content}
                onChange={(event) => change(at, { content: event.target.value })}
              />
              <IconButton
                icon={XIcon}
                label={`Remove step ${at + 1}`}
                small
                onClick={() => setPlan(plan.filter((_, n) => n !== at))}
              />
            </li>
          ))}
        </ol>
        <button
          type="button"
          className="button small"
          onClick={() => setPlan([...plan, { content: "", status: "pending" }])}
        >
          <PlusIcon size={13} />
          Add a step
        </button>
        <Refusal problem={save.problem} />
        <div className="row">
          <button type="submit" className="button primary" disabled={save.busy}>
            Save
          </button>
          <button type="button" className="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
