"""Planning: a todo list that the agent keeps with `write_todos`, stored with the thread and shown to its people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, BeforeValidator, Field, JsonValue, TypeAdapter, ValidationError

from agency import Draft, HookContext, InvalidInput, Middleware, Plan, StateEditor, ToolContext, tool

CONTENT_CHARS = 2_000

PROMPT = """\
For work of several steps, keep a todo list with `write_todos`. Give the whole list each time; it replaces the one \
before. Mark a step `in_progress` before you begin it and `completed` as soon as it is done."""

Status = Literal["pending", "in_progress", "completed"]
STATUSES: tuple[Status, ...] = get_args(Status)


def _known_status(status: object) -> object:
    return status if status in STATUSES else "pending"


class Todo(BaseModel):
    content: Annotated[str, BeforeValidator(lambda text: text[:CONTENT_CHARS] if isinstance(text, str) else text)]
    status: Annotated[Status, BeforeValidator(_known_status)] = Field(default="pending")


def _write(store: Draft, todos: Sequence[Todo]) -> None:
    store.execute("DELETE FROM todos")
    for position, todo in enumerate(todos):
        store.execute("INSERT INTO todos VALUES (?, ?, ?)", (position, todo.content, todo.status))


@tool
async def write_todos(todos: list[Todo], ctx: ToolContext) -> str:
    """Replace the todo list.

    Args:
        todos: The whole new list, in order.
    """
    _write(ctx.store, todos)
    return f"Updated todo list ({len(todos)} items)."


TODOS: TypeAdapter[list[Todo]] = TypeAdapter(list[Todo])


class Planning(Middleware, StateEditor):
    name = "planning"
    tags = ("planning",)
    registers = (write_todos.name,)
    editable = ("todos",)
    tables = ("CREATE TABLE todos (position INTEGER PRIMARY KEY, content TEXT NOT NULL, status TEXT NOT NULL) STRICT",)

    async def on_init(self, ctx: HookContext) -> None:
        ctx.register_tool(write_todos)

    async def before_model(self, ctx: HookContext, plan: Plan) -> None:
        plan.add_prompt(PROMPT)

    async def state(self, ctx: HookContext) -> dict[str, JsonValue]:
        rows = ctx.store.query("SELECT content, status FROM todos ORDER BY position")
        return {"todos": [{"content": str(content), "status": str(status)} for content, status in rows]}

    async def edit_state(self, ctx: HookContext, part: str, value: JsonValue) -> tuple[str, ...]:
        for each in value if isinstance(value, list) else ():
            if (
                isinstance(each, dict) and each.get("status", "pending") not in STATUSES
            ):  # only a model means one of them
                raise InvalidInput(f"the status of a todo is one of {', '.join(STATUSES)}")
        try:
            todos = TODOS.validate_python(value)
        except ValidationError as error:
            raise InvalidInput(f"todos is a list of {{content, status}}: {error.errors()[0]['msg']}") from error
        _write(ctx.store, todos)
        listed = "\n".join(f"- [{todo.status}] {todo.content}" for todo in todos) or "(it is empty)"
        ctx.inject("user", f"(A person changed the todo list. It is now:\n{listed})")
        return ()


planning = Planning()
