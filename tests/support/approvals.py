"""An agent with a tool that needs approval, and what tests ask of its thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agency import (
    AgentSystem,
    Event,
    EventType,
    LocalRuntime,
    Message,
    Thread,
    tool,
)
from agency.define.hooks import AnyMiddleware
from agency.testing import Line, ScriptedModel, call
from middleware import hitl

LOOK = call("look", what="order", call_id="look")
FIVE = call("refund", cents=5, call_id="five")


SEVEN = call("refund", cents=7, call_id="seven")


class Shop:
    """A system with one tool that needs approval; `ran` is what has really been done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ran: list[str] = []
        self.model = ScriptedModel([])

    def system(
        self, lines: Sequence[Line], guarded: Sequence[str] = ("refund",), middleware: Sequence[AnyMiddleware] = ()
    ) -> AgentSystem:
        @tool(safe=True)
        async def look(what: str) -> str:
            self.ran.append(f"look {what}")
            return f"saw {what}"

        @tool(idempotent=False, risk="high")
        async def refund(cents: int) -> str:
            self.ran.append(f"refund {cents}")
            return f"refunded {cents}"

        self.model = ScriptedModel(lines)
        system = AgentSystem("scripted:any", providers={"scripted": self.model})
        for each in middleware:
            system.use(each)
        return (
            system.use(hitl)
            .add_tool(look)
            .add_tool(refund)
            .add_agent(
                name="clerk",
                description="Refunds.",
                prompt="You refund.",
                tags=["default", "hitl"],
                config={"hitl": {"tools": list(guarded)}},
            )
        )

    @asynccontextmanager
    async def open(
        self, *lines: Line, guarded: Sequence[str] = ("refund",), middleware: Sequence[AnyMiddleware] = ()
    ) -> AsyncIterator[Thread]:
        """The thread, which is the same one each time."""
        async with LocalRuntime(self.system(lines, guarded, middleware), self.folder) as runtime:
            known = "clerk" in runtime.thread_ids()
            yield await (runtime.thread("clerk") if known else runtime.create_thread("clerk", thread_id="clerk"))

    @asynccontextmanager
    async def waiting(self, *calls: Line, end: str = "done") -> AsyncIterator[Thread]:
        """A thread whose run waits for a person."""
        async with self.open(*calls, end) as thread:
            await thread.invoke("go")
            run = await thread.wait(timeout=5)
            assert (run.status, run.meta.pause_reason) == ("paused", "hitl")
            yield thread


async def results(thread: Thread) -> dict[str | None, str]:
    """What the model reads as the result of each call, checked to be one each."""
    tools = [message for message in (await thread.state()).messages if message.role == "tool"]
    assert len({message.tool_call_id for message in tools}) == len(tools)
    return {message.tool_call_id: message.content for message in tools}


async def ended(thread: Thread) -> Any:
    """The result of the run, which has completed."""
    run = await thread.wait(timeout=5)
    assert run.status == "completed", run
    return run.data


def pending(thread: Thread) -> list[str]:
    return [waiting.id for waiting in thread.run().meta.pending_tool_calls]


async def events(thread: Thread, *types: EventType) -> list[Event]:
    return [event async for event in thread.events(follow=False) if not types or event.type in types]


async def snapshot(thread: Thread) -> tuple[list[Event], tuple[Message, ...], list[str], str]:
    """All that a refused answer must leave as it is."""
    return await events(thread), (await thread.state()).messages, pending(thread), thread.run_state().status
