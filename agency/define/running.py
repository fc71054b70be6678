"""One run of an agent in one call, for scripts, notebooks and tests: `system.run`, and `run_sync` where nothing awaits.

The one idea: what comes back is typed by what was asked for. The work is that of `agency.local`, which is above this
module and is imported when a run is wanted: defining a system needs no runtime.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from pydantic import BaseModel, JsonValue
from typing_extensions import Unpack

from agency.define.options import RunOptionFields
from agency.define.output import OutputType
from agency.errors import WrongState
from agency.messages import Message
from agency.turn.state import Limits

if TYPE_CHECKING:
    from agency.define.system import AgentSystem
    from agency.thread.results import RunResult

AnyOutput = TypeVar("AnyOutput", bound=BaseModel)
Asked = str | Message | Sequence[Message]


class OneRunFields(RunOptionFields, total=False):
    """What a run in one call can be given besides its agent, its message and its output."""

    file: Path | str | None
    folder: Path | str | None
    timeout: float | None
    limits: Limits | None
    files: Mapping[str, str] | None


class RunsAgents:
    """What an `AgentSystem` can do by itself, without a server."""

    @overload
    async def run(self, agent: str, message: Asked, **given: Unpack[OneRunFields]) -> RunResult[str]: ...
    @overload
    async def run(
        self, agent: str, message: Asked, *, output: type[AnyOutput], **given: Unpack[OneRunFields]
    ) -> RunResult[AnyOutput]: ...
    @overload
    async def run(
        self, agent: str, message: Asked, *, output: Mapping[str, JsonValue], **given: Unpack[OneRunFields]
    ) -> RunResult[JsonValue]: ...
    async def run(
        self, agent: str, message: Asked, *, output: OutputType | None = None, **given: Unpack[OneRunFields]
    ) -> RunResult[Any]:
        """Run an agent once, in this process, and return its result: `output`, `run` and `thread`.

        `output` is what the result must be: a pydantic model gives an instance of it, a JSON schema a value, nothing
        the text. Nothing is kept, unless you name a `file` for the thread, which goes on with the one that is there, or
        a `folder` to make a new thread in. `timeout` is in seconds; `limits`, `files` and the options of the run are
        those of `Thread.invoke`.

        Raises `RunFailed` if the run ends without a result, and `RunUnfinished` if it waits for a person or the time is
        over. With a `file` or a `folder`, open the thread to approve, and it goes on.
        """
        from agency.local import run_once

        return await run_once(cast("AgentSystem", self), agent, message, output=output, **given)

    @overload
    def run_sync(self, agent: str, message: Asked, **given: Unpack[OneRunFields]) -> RunResult[str]: ...
    @overload
    def run_sync(
        self, agent: str, message: Asked, *, output: type[AnyOutput], **given: Unpack[OneRunFields]
    ) -> RunResult[AnyOutput]: ...
    @overload
    def run_sync(
        self, agent: str, message: Asked, *, output: Mapping[str, JsonValue], **given: Unpack[OneRunFields]
    ) -> RunResult[JsonValue]: ...
    def run_sync(
        self, agent: str, message: Asked, *, output: OutputType | None = None, **given: Unpack[OneRunFields]
    ) -> RunResult[Any]:
        """`run`, where nothing can be awaited: it blocks until the run has ended."""
        from agency.local import run_once

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(run_once(cast("AgentSystem", self), agent, message, output=output, **given))
        raise WrongState("an event loop is running here: write `await system.run(…)` instead of `system.run_sync(…)`")
