"""Helpers for testing systems: a model that says what it is told to say, and stores that die on demand.

model = ScriptedModel([call("lookup", order="7"), "It is on its way."])
system = AgentSystem("scripted:any", providers={"scripted": model})
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal

from pydantic import JsonValue

from agency.messages import ToolCall, Usage
from agency.models.interface import Capability, ModelRequest, OnDelta
from agency.models.providers.entry import Price
from agency.store import sqlite
from agency.turn.effects import ModelReply

Line = str | ToolCall | ModelReply | Sequence[ToolCall] | Exception
"""One reply: text, one or several tool calls, a whole reply, or an error to raise."""

Script = Sequence[Line] | Callable[[ModelRequest], Line | Awaitable[Line]]

_ids = itertools.count(1)


def call(name: str, /, *, call_id: str | None = None, **args: JsonValue) -> ToolCall:
    """A tool call for a script."""
    return ToolCall(id=call_id or f"call_{next(_ids)}", name=name, args=args)


class ScriptedModel:
    """Replies from a script: a list, followed by how many replies the conversation has had, or a function.

    A list is stateless, so it does the right thing when a call is repeated after a crash. `requests` keeps every
    request that was made, for assertions. Its replies cost what `price` says, and an unknown sum without one.
    """

    def __init__(
        self, script: Script, *, capabilities: Iterable[Capability] = ("streaming", "tools"), price: Price | None = None
    ) -> None:
        self._script = script
        self._capabilities = frozenset(capabilities)
        self._price = price
        self.requests: list[ModelRequest] = []

    def capabilities(self, model: str) -> frozenset[Capability]:
        return self._capabilities

    def cost(self, model: str, usage: Usage) -> float | None:
        if self._price is None:
            return None
        return (usage.input * self._price.input + usage.output * self._price.output) / 1_000_000

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        self.requests.append(request)
        line = await self._line(request)
        if isinstance(line, Exception):
            raise line
        reply = as_reply(line)
        for piece in re.findall(r"\s*\S+|\s+$", reply.text):
            on_delta(piece)
            await asyncio.sleep(0)
        return reply

    async def _line(self, request: ModelRequest) -> Line:
        if callable(self._script):
            line = self._script(request)
            return await line if isinstance(line, Awaitable) else line
        said = sum(message.role == "assistant" for message in request.messages)
        if said >= len(self._script):
            raise AssertionError(f"the script has {len(self._script)} replies and a further one was asked for")
        return self._script[said]


def as_reply(line: Line) -> ModelReply:
    match line:
        case ModelReply():
            return line
        case str():
            return ModelReply(text=line, stop="stop", usage=Usage(input=10, output=5))
        case ToolCall():
            return ModelReply(tool_calls=(line,), stop="tool_use", usage=Usage(input=10, output=5))
        case Exception():
            raise line
        case _:
            return ModelReply(tool_calls=tuple(line), stop="tool_use", usage=Usage(input=10, output=5))


def die_at_commit(n: int, when: Literal["before", "after"]) -> None:
    """Have this process killed, as by `kill -9`, before or after the n-th transaction that any store commits."""
    left = itertools.count(1)

    def hook(moment: Literal["before", "after"]) -> None:
        if moment == when and next(left) == n:
            os.kill(os.getpid(), signal.SIGKILL)

    sqlite.commit_hook = hook
