"""A desk: one real thread whose model makes the calls that a test asks for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agency import AgentSystem, Middleware, ModelRequest, Thread, ToolCall, open_thread
from agency.testing import Line, ScriptedModel

OpenDesk = Callable[[], AbstractAsyncContextManager["Desk"]]
MakeDesk = Callable[..., OpenDesk]


class Desk:
    def __init__(self, thread: Thread, model: ScriptedModel, lines: list[Line]) -> None:
        self.thread = thread
        self._model = model
        self._lines = lines

    async def do(self, *batches: ToolCall | Sequence[ToolCall]) -> list[str]:
        """Have one run make these calls, batch after batch; their results, in the order of the calls."""
        before = len((await self.thread.state()).messages)
        self._lines[:] = [*batches, "done"]
        await self.thread.send("go on")
        run = await self.thread.wait(timeout=10)
        assert run.status == "completed", run
        messages = (await self.thread.state()).messages[before:]
        return [message.content for message in messages if message.role == "tool"]

    async def more(self) -> dict[str, Any]:
        return (await self.thread.state()).more

    @property
    def last_request(self) -> ModelRequest:
        return self._model.requests[-1]


@pytest.fixture
def make_desk(tmp_path: Path) -> MakeDesk:
    """Desks with these middleware. All that one test opens are the same thread, in the same file."""

    def make(*middleware: Middleware[Any]) -> OpenDesk:
        @asynccontextmanager
        async def desk() -> AsyncIterator[Desk]:
            lines: list[Line] = []
            model = ScriptedModel(lambda request: lines.pop(0))
            system = AgentSystem("scripted:any", providers={"scripted": model})
            for each in middleware:
                system.use(each, tags=["default"])
            system.add_agent(name="clerk", description="Does as told.", prompt="You are a clerk.")
            async with open_thread(system, tmp_path / "clerk.db", agent="clerk") as thread:
                yield Desk(thread, model, lines)

        return desk

    return make
