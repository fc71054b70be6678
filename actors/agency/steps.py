"""Steps: what a coroutine does from one await to the next. Nothing else runs on the event loop during a step.

`in_steps` performs a coroutine so that each of its steps begins at a moment that the caller chooses. So code that uses
a file between its awaits need not know that the file is out of use at times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Protocol, TypeVar

Value = TypeVar("Value")


class Pacer(Protocol):
    async def may_step(self) -> None:
        """Return when a step may begin."""

    def trouble(self) -> BaseException | None:
        """What the next step is to find, in the place of what it has waited for."""

    def stepped(self) -> None:
        """A step has ended."""


class _Forwarded:
    """Hands what a coroutine waits for to the event loop."""

    def __init__(self, awaited: Any) -> None:
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self._awaited)


async def in_steps(work: Coroutine[Any, Any, Value], pacer: Pacer) -> Value:
    """Do `work`, each of its steps when the pacer lets it. A cancellation waits for that, too, and is then raised in
    `work` as ever."""
    raised: BaseException | None = None
    while True:
        raised = await _cleared(pacer, raised)
        try:
            awaited = work.send(None) if raised is None else work.throw(raised)
        except StopIteration as done:
            found: Value = done.value
            return found
        finally:
            pacer.stepped()
        raised = None
        try:
            await _Forwarded(awaited)
        except GeneratorExit:  # of a loop that is closed: there is nothing left to wait with
            work.close()
            raise
        except BaseException as error:
            raised = error


async def _cleared(pacer: Pacer, raised: BaseException | None) -> BaseException | None:
    """Wait until the next step may begin; what is to be raised in it."""
    while True:
        try:
            await pacer.may_step()
        except asyncio.CancelledError as error:
            raised = error
        else:
            return raised if isinstance(raised, asyncio.CancelledError) else pacer.trouble() or raised
