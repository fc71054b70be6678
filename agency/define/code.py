"""The seam to code execution, for agents in code mode. The library brings no sandbox of its own: bring yours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from pydantic import ConfigDict, JsonValue

from agency.turn.outcomes import Settled
from agency.wire import CHECKED

CallTool = Callable[[str, JsonValue], Awaitable[Settled]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeResult:
    """`state` is given to the next execution of the run. `submitted` (a one-tuple) or `error` ends the run."""

    __pydantic_config__: ClassVar[ConfigDict] = CHECKED

    output: str
    state: JsonValue = None
    submitted: tuple[JsonValue] | None = None
    error: str | None = None


class CodeRunner(Protocol):
    """Runs code that a model wrote. After a crash the same code runs again with the same state.

    `call_tool` runs one of the agent's tools. A call that finished before the crash is answered from its record when
    the code makes the same calls in the same order.
    """

    async def run(self, code: str, state: JsonValue, call_tool: CallTool) -> CodeResult:
        """Run `code`. `state` is what the execution before returned, and None at first."""
