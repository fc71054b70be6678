"""One real thread whose model makes the calls that a test asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from agency import ModelRequest, Thread, ToolCall
from agency.testing import Line, ScriptedModel

OpenRunner = Callable[[], AbstractAsyncContextManager["CallRunner"]]
MakeRunner = Callable[..., OpenRunner]


class CallRunner:
    def __init__(self, thread: Thread, path: Path, model: ScriptedModel, lines: list[Line]) -> None:
        self.path = path
        self.thread = thread
        self._model = model
        self.lines = lines

    async def do(self, *batches: ToolCall | Sequence[ToolCall]) -> list[str]:
        """Have one run make these calls, batch after batch; their results, in the order of the calls."""
        before = len((await self.thread.state()).messages)
        self.lines[:] = [*batches, "done"]
        await self.thread.invoke("go on")
        run = await self.thread.wait(timeout=10)
        assert run.status == "completed", run
        messages = (await self.thread.state()).messages[before:]
        return [message.content for message in messages if message.role == "tool"]

    async def more(self) -> dict[str, Any]:
        return (await self.thread.state()).more

    @property
    def last_request(self) -> ModelRequest:
        return self._model.requests[-1]
