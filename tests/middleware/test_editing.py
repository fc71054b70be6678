"""What an agent keeps can be changed by people while no run is at work, and that is an event."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pydantic import JsonValue

from agency import AgentSystem, Event, EventType, InvalidInput, LocalRuntime, ModelRequest, Thread, WrongState, tool
from agency.testing import Line, ScriptedModel, call

PATIENCE = 10.0
TODOS: JsonValue = [{"content": "ask the baker", "status": "pending"}]


@tool
async def hang() -> str:
    """Hang."""
    await asyncio.Event().wait()
    raise AssertionError("never")


def build() -> tuple[AgentSystem, ScriptedModel]:
    def line(request: ModelRequest) -> Line:
        said = request.messages[-1].content
        return call("hang") if said == "hang" else "done"

    model = ScriptedModel(line)
    system = AgentSystem("scripted:any", providers={"scripted": model}).defaults().add_tool(hang)
    return system.add_agent(name="clerk", description="d", prompt="p"), model


async def edits(thread: Thread) -> list[Event]:
    return [event async for event in thread.events(follow=False) if event.type == EventType.STATE_EDITED]


async def test_todos_and_files_are_changed_together_and_the_model_is_told(tmp_path: Path) -> None:
    system, model = build()
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.put_files({"/a.md": "old", "/b.md": "old"}, by="ann")
        await thread.edit_state({"todos": TODOS, "files": {"/a.md": "new secret words", "/b.md": None}}, by="bob")
        state = (await thread.state()).more
        assert (state["todos"], state["files"]) == (TODOS, {"/a.md": "new secret words"})
        given, todos, files = await edits(thread)
        assert given.data == {
            "threadId": thread.id,
            "part": "files",
            "change": "uploaded",
            "paths": ["/a.md", "/b.md"],
            "by": "ann",
        }
        assert todos.data == {"threadId": thread.id, "part": "todos", "change": "edited", "by": "bob"}
        assert files.data["paths"] == ["/a.md", "/b.md"]
        assert "secret words" not in str([event.data for event in await edits(thread)])
        await thread.invoke("go on")
        await thread.wait(PATIENCE)
        said = "\n".join(message.content for message in model.requests[0].messages)
        assert "- [pending] ask the baker" in said and "/a.md (edited), /b.md (deleted)" in said
        await thread.delete_file("/a.md", by="ann")
        assert (await edits(thread))[-1].data["change"] == "deleted"


async def test_files_that_come_with_a_message_are_told_of(tmp_path: Path) -> None:
    system, _ = build()
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("read it", files={"/x.md": "text"})
        await thread.wait(PATIENCE)
        (given,) = await edits(thread)
        assert given.data == {"runId": f"{thread.id}.1", "part": "files", "change": "uploaded", "paths": ["/x.md"]}


async def test_what_is_wrong_or_comes_at_the_wrong_time_changes_nothing(tmp_path: Path) -> None:
    system, _ = build()
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        for changes, problem in (
            ({"memory": "x"}, "'memory' cannot be edited.*todos, files"),
            ({"todos": TODOS, "files": {"/a.md": 5}}, "texts by path"),
            ({"files": {"relative": "x"}}, 'begins with "/"'),
            ({"files": {"/none.md": None}}, "no file '/none.md' to delete"),
            ({"todos": [{"status": "pending"}]}, "list of {content, status}"),
            ({"todos": [{"content": "x", "status": "later"}]}, "one of pending, in_progress, completed"),
            ({}, "name what to change: todos, files"),
        ):
            with pytest.raises(InvalidInput, match=problem):
                await thread.edit_state(changes)  # type: ignore[arg-type]  # as callers may send it
        with pytest.raises(WrongState, match="has changed since event 0"):
            await thread.edit_state({"todos": TODOS}, seq=0)
        await thread.invoke("hang")
        with pytest.raises(WrongState, match="is at work"):
            await thread.edit_state({"todos": TODOS})
        await thread.cancel()
        assert (await thread.state()).more["todos"] == [] and not await edits(thread)
        await thread.edit_state({"todos": TODOS}, seq=(await _last(thread)).seq)
        assert thread.run_state().status == "canceled", "editing starts no run"


async def _last(thread: Thread) -> Event:
    return [event async for event in thread.events(follow=False)][-1]
