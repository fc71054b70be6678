import { CheckIcon } from "lucide-react";
import css from "@/run/TodoList.module.css";
import { TODO_WORDS, type Todo } from "@/run/todos";

/** A plan as it is worked off. */
export function TodoList({ todos }: { todos: readonly Todo[] }) {
  return (
    <ol className={css.plan}>
      {todos.map((todo, at) => (
        <li key={at} data-status={todo.status}>
          <span className={css.mark} aria-hidden="true">
            {todo.status === "completed" && <CheckIcon size={11} />}
          </span>
          <span>{todo.content}</span>
          <span className="unseen"> ({TODO_WORDS[todo.status ?? "pending"]})</span>
        </li>
      ))}
    </ol>
  );
}
