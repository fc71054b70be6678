"""Planning: a todo list that the agent keeps with `write_todos`, stored with the thread and shown to its people."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field, JsonValue

from agency import HookContext, Middleware, Plan, ToolContext, tool

CONTENT_CHARS = 2_000

PROMPT = """\
For work of several steps, keep a todo list with `write_todos`. Give the whole list each time; it replaces the one \
before. Mark a step `in_progress` before you begin it and `completed` as soon as it is done."""

Status = Literal["pending", "in_progress", "completed"]


def _known_status(status: object) -> object:
    return status if status in ("pending", "in_progress", "completed") else "pending"


class Todo(BaseModel):
    content: Annotated[str, BeforeValidator(lambda text: text[:CONTENT_CHARS] if isinstance(text, str) else text)]
    status: Annotated[Status, BeforeValidator(_known_status)] = Field(default="pending")


@tool
async def write_todos(todos: list[Todo], ctx: ToolContext) -> str:
    """Replace the todo list.

    Args:
        todos: The whole new list, in order.
    """
    ctx.store.execute("DELETE FROM todos")
    for position, todo in enumerate(todos):
        ctx.store.execute("INSERT INTO todos VALUES (?, ?, ?)", (position, todo.content, todo.status))
    return f"Updated todo list ({len(todos)} items)."


class Planning(Middleware):
    name = "planning"
    tags = ("planning",)
    registers = (write_todos.name,)
    tables = ("CREATE TABLE todos (position INTEGER PRIMARY KEY, content TEXT NOT NULL, status TEXT NOT NULL) STRICT",)

    async def on_init(self, ctx: HookContext) -> None:
        ctx.register_tool(write_todos)

    async def before_model(self, ctx: HookContext, plan: Plan) -> None:
        plan.add_prompt(PROMPT)

    async def state(self, ctx: HookContext) -> dict[str, JsonValue]:
        rows = ctx.store.query("SELECT content, status FROM todos ORDER BY position")
        return {"todos": [{"content": str(content), "status": str(status)} for content, status in rows]}


planning = Planning()
