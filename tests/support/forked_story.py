"""One rich thread to fork: two runs with todos, files, values, a subagent, an approval, parallel calls and a message
that joins. And what a file holds of it, read without the store.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from agency import (
    AgentSystem,
    EventType,
    LocalRuntime,
    Middleware,
    ModelRequest,
    ToolContext,
    tool,
)
from agency.store.forking import find_origin, make_fork
from agency.testing import Line, ScriptedModel, call
from middleware import hitl
from tests.support.thread_files import messages_of

LONG = "long " * 1_000


class Notes(Middleware[Any]):
    """Keeps a table without a primary key."""

    name = "notes"
    tables = ("CREATE TABLE notes (text)",)


@tool
async def remember(key: str, value: str, ctx: ToolContext) -> str:
    """Remember a value."""
    ctx.store.put("test", key, value or None)
    ctx.store.execute("DELETE FROM notes WHERE text = ?", (key,))
    ctx.store.execute("INSERT INTO notes VALUES (?)", (key,))
    return "remembered"


@tool(safe=True)
async def look(what: str, ctx: ToolContext) -> str:
    """Look something up."""
    ctx.store.put("look", what, "seen")
    return LONG + what


@tool(risk="high")
async def publish(path: str, ctx: ToolContext) -> str:
    """Publish a file."""
    ctx.store.put("test", "published", path)
    return f"{path} is public"


def script(request: ModelRequest) -> Line:
    if request.system.startswith("scout"):
        return "it is blue"
    asked = max(i for i, message in enumerate(request.messages) if message.role == "user")
    step = sum(message.role == "assistant" for message in request.messages[asked:])
    lines: dict[str, list[Line]] = {
        "first": [
            [
                call("write_todos", todos=[{"content": "look"}, {"content": "write"}], call_id="a1"),
                call("write_file", path="/notes.md", content="one\ntwo\n", call_id="a2"),
                call("remember", key="colour", value="unknown", call_id="a3"),
            ],
            [
                call("look", what="north", call_id="b1"),
                call("look", what="south", call_id="b2"),
                call("read_file", path="/notes.md", call_id="b3"),
                call("task", description="the sky", subagentType="scout", call_id="b4"),
                call("remember", key="colour", value="blue", call_id="b5"),
            ],
            "The sky is blue.",
        ],
        "joined": [
            call("edit_file", path="/notes.md", oldString="two", newString="three", call_id="c1"),
            "Mended.",
        ],
        "second": [
            [
                call("write_todos", todos=[{"content": "publish", "status": "in_progress"}], call_id="d1"),
                call("publish", path="/notes.md", call_id="d2"),
                call("remember", key="colour", value="", call_id="d3"),
            ],
            call("write_todos", todos=[], call_id="e1"),
            "Published.",
        ],
        "edited": ["That is another question."],
    }
    return lines[request.messages[asked].content][step]


def build() -> AgentSystem:
    return (
        AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)})
        .defaults()
        .use(hitl)
        .use(Notes(), tags=["default"])
        .add_tool(remember)
        .add_tool(look)
        .add_tool(publish)
        .add_agent(
            name="editor",
            description="Edits.",
            prompt="editor",
            tags=["default", "hitl"],
            config={"hitl": {"tools": ["publish"]}},
        )
        .add_agent(name="scout", description="Looks.", prompt="scout", tags=["planning"])
    )


async def tell(folder: Path) -> None:
    async with LocalRuntime(build(), folder) as runtime:
        thread = await runtime.create_thread("editor", thread_id="editor")
        await thread.put_files({"/given.txt": "given"})
        await thread.invoke("first")
        async for event in thread.events():
            if event.type == EventType.SUBAGENT_SPAWNED:
                await thread.invoke("joined")
                break
        assert (await thread.wait(20)).data == "Mended."
        await thread.put_files({"/between.txt": "between"})
        await thread.invoke("second")
        assert (await thread.wait(20)).meta.pause_reason == "hitl"
        await thread.approve()
        assert (await thread.wait(20)).data == "Published."
        await thread.put_files({"/last.txt": "last"})


State = dict[str, list[Any]]


OWNED = ("files", "todos", "notes", "kv", "children")


def state_of(path: Path) -> State:
    """What a file holds of what its thread knows. Who works for it, and what that costs, is the original's own."""
    with closing(sqlite3.connect(path)) as db:
        found = {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in OWNED}
        db.row_factory = lambda cursor, row: dict(zip([column[0] for column in cursor.description], row, strict=True))
        found["children"] = [
            {**row, "spent": None, "completed_at": None, "status": row["status"].replace("waiting", "canceled")}
            for row in db.execute("SELECT * FROM children")
        ]
    return {**found, "messages": messages_of(path)}


def events_of(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT * FROM events ORDER BY seq").fetchall()


def fork(source: Path, target: Path, seq: int | None = None, before: str | None = None, **options: Any) -> Path:
    origin = find_origin(source, after=seq, before=before)
    make_fork(source, target, origin.fork(target.stem), origin.cut, **options)
    return target
