"""The process is killed before and after every commit of a run whose tools return pictures and files."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Literal

import pytest

from agency import AgentSystem, Image, ModelRequest, ToolResult, open_thread, tool
from agency.testing import Line, ScriptedModel, call
from middleware import filesystem
from tests.support.crashes import in_a_process, killed_at

PICTURE = Image(media_type="image/png", data="aGk=")


@tool
async def draw() -> ToolResult:
    """Draw it."""
    return ToolResult("drawn", images=[PICTURE], files={"/plan.txt": "two ovens"})


@tool
async def look() -> Image:
    """Look at it."""
    return PICTURE


def script(request: ModelRequest) -> Line:
    lines: list[Line] = [[call("draw"), call("look")], "done"]
    return lines[sum(message.role == "assistant" for message in request.messages)]


async def operate(path: Path) -> None:
    """What a patient user does: ask, and look at what there is in the end."""
    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)})
    system.use(filesystem, tags=["default"]).add_tool(draw).add_tool(look)
    system.add_agent(name="clerk", description="Does as told.", prompt="You are a clerk.")
    async with open_thread(system, path, agent="clerk") as thread:
        await thread.invoke("go", idempotency_key="once")
        assert (await thread.wait(20)).status == "completed"
        results = [message for message in (await thread.state()).messages if message.role == "tool"]
        assert [message.images for message in results] == [(PICTURE,), (PICTURE,)]
        assert results[0].content == "drawn\n(Kept as files: /plan.txt (9 bytes))"
        assert await thread.read_file("/plan.txt") == b"two ovens"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_commit_loses_no_picture_and_no_file(when: Literal["before", "after"], tmp_path: Path) -> None:
    for n in range(1, 50):
        path = tmp_path / f"{n}.db"
        status = killed_at(n, when, lambda path=path: asyncio.run(operate(path)))  # type: ignore[misc]  # bound now
        assert in_a_process(lambda path=path: asyncio.run(operate(path))) == 0, n  # type: ignore[misc]  # bound now
        if status == 0:
            assert n > 5
            return
        assert status == -signal.SIGKILL
    raise AssertionError("it never ran through")
