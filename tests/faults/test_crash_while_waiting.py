"""The process is killed before and after every commit of a run that waits for the outside, and of a timer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from agency import (
    AgentSystem,
    EventType,
    HookContext,
    LocalRuntime,
    Middleware,
    ModelRequest,
    OutsideWait,
    RunEnd,
    Thread,
    ToolContext,
    tool,
)
from agency.clock import now_ms
from agency.testing import Line, ScriptedModel, call
from tests.support.crashes import killed_and_resumed
from tests.support.waiting import eventually

HOUR = 3_600_000


class Reminder(Middleware[None]):
    """Has the agent act once more, by a timer."""

    name = "reminder"

    async def on_run_end(self, ctx: HookContext[None], run: RunEnd) -> None:
        if run.run_id.endswith(".1"):
            ctx.timers.set("again", now_ms())

    async def on_timer(self, ctx: HookContext[None], name: str) -> None:
        ctx.inject("user", "once more", next_run=True)


def build(folder: Path) -> AgentSystem:
    @tool
    async def charge(ctx: ToolContext) -> OutsideWait:
        """Wait for a payment."""
        wait = await ctx.wait_outside("the payment", timeout_ms=HOUR)
        _note(folder, wait.token)
        return wait

    @tool(safe=True)
    async def look() -> str:
        """Look."""
        return "seen"

    def line(request: ModelRequest) -> Line:
        last = request.messages[-1]
        if last.role == "tool":
            return "done"
        return "reminded" if last.content == "once more" else [call("look", call_id="a"), call("charge", call_id="b")]

    model = ScriptedModel(line)
    system = AgentSystem("scripted:any", providers={"scripted": model}).add_tool(charge).add_tool(look)
    system.use(Reminder(), tags=["default"])
    return system.add_agent(name="clerk", description="d", prompt="You are a clerk.")


def _note(folder: Path, token: str) -> None:
    with (folder / "tokens.txt").open("a") as ledger:
        ledger.write(f"{token}\n")


async def operate(folder: Path) -> None:
    """What a patient bank does: settle the first token that it was ever given, until that is known to be done."""
    async with LocalRuntime(build(folder), folder) as runtime:
        known = "clerk" in runtime.thread_ids()
        thread = await (runtime.thread("clerk") if known else runtime.create_thread("clerk", thread_id="clerk"))
        await thread.invoke("charge it", idempotency_key="1")
        await eventually(lambda: (folder / "tokens.txt").exists())
        tokens = (folder / "tokens.txt").read_text().split()
        settled = await thread.settle(tokens[0], "paid")
        assert settled.status == "settled"
        await _reminded(thread)


async def _reminded(thread: Thread) -> None:
    await eventually(lambda: thread.run_state().run_id.endswith(".2") and thread.run_state().status == "completed")


async def look_at(folder: Path) -> tuple[list[str], list[EventType], int | None]:
    async with LocalRuntime(build(folder), folder) as runtime:
        thread = await runtime.thread("clerk")
        said = [message.content for message in (await thread.state()).messages if message.role != "assistant"]
        return said, [event.type async for event in thread.events(follow=False)], thread.wake_at


@pytest.mark.kills
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_commit_settles_the_call_once_and_tells_the_timer(
    when: Literal["before", "after"], tmp_path: Path
) -> None:
    for folder in killed_and_resumed(tmp_path, when, operate, least=8):
        said, kinds, wake_at = asyncio.run(look_at(folder))
        assert said == ["charge it", "seen", "paid", "once more"], folder.name
        assert kinds.count(EventType.TOOL_OUTPUT) == 2 and wake_at is None, folder.name
