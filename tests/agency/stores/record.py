"""Records stores of the current versions, for `test_old_files.py`. Run it once when a version changes, and commit the
file of that version: it must open for ever.

    python tests/agency/stores/record.py
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from agency import AgentSystem, LocalRuntime, ModelRequest, tool
from agency.shelves import local
from agency.shelves.local import LocalShelves
from agency.store.schema import STEPS
from agency.testing import Line, ScriptedModel, call
from middleware import hitl

HERE = Path(__file__).parent


@tool(risk="high", idempotent=False)
async def publish(path: str) -> str:
    """Publish a file."""
    return f"{path} is public"


def script(request: ModelRequest) -> Line:
    if request.system.startswith("You look"):
        return "it is blue"
    step = sum(message.role == "assistant" for message in request.messages)
    lines: list[Line] = [
        [
            call("write_todos", todos=[{"content": "look", "status": "in_progress"}], call_id="a1"),
            call("write_file", path="/notes.md", content="one\ntwo\n", call_id="a2"),
        ],
        call("task", description="the sky", subagentType="scout", call_id="b1"),
        "The sky is blue.",
        [call("publish", path="/notes.md", call_id="c1"), call("read_file", path="/notes.md", call_id="c2")],
        "Published.",
    ]
    return lines[step]


def build() -> AgentSystem:
    return (
        AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)})
        .defaults()
        .use(hitl)
        .add_tool(publish)
        .add_agent(
            name="editor",
            description="Edits.",
            prompt="You edit.",
            tags=["default", "hitl"],
            config={"hitl": {"tools": ["publish"]}},
        )
        .add_agent(name="scout", description="Looks.", prompt="You look.", tags=["planning"])
    )


async def record(folder: Path) -> None:
    """One run that has ended, and one that waits for a person."""
    async with LocalRuntime(build(), folder) as runtime:
        thread = await runtime.create_thread("editor", thread_id="editor")
        await thread.invoke("What colour is the sky?", idempotency_key="first")
        assert (await thread.wait(10)).status == "completed"
        await thread.invoke("Publish your notes.")
        assert (await thread.wait(10)).meta.pause_reason == "hitl"


def record_shelves(folder: Path) -> None:
    shelves = LocalShelves(folder / "shelves")
    shelves.write("notes", "gone", b"0")
    shelves.write("notes", "recipes/rügbröd.md", b"# Rye", key="first")
    shelves.write("memory", "raw", bytes(range(256)))
    shelves.delete("notes", "gone")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(record(Path(made)))
        record_shelves(Path(made))
        for file, recorded in (
            (Path(made) / "editor.db", HERE / f"v{len(STEPS)}.db"),
            (Path(made) / "shelves" / local.FILE, HERE / f"shelves-v{len(local.STEPS)}.db"),
        ):
            if not recorded.exists():  # what was recorded once is never replaced
                shutil.copy(file, recorded)
