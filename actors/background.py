"""Background tasks: tasks that no caller waits for. asyncio forgets a task without a reference and says nothing of its
error before that, so they are kept here until they end, and failures are logged. And work that goes on to its end
although its caller has gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)

Value = TypeVar("Value")


class Background:
    def __init__(self, whose: str) -> None:
        self._whose = whose
        self._tasks: set[asyncio.Task[None]] = set()

    def go(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def go_on(self, every: float, work: Callable[[], Awaitable[None]]) -> None:
        """Do it every so many seconds. A failure is logged and does not end it."""

        async def again() -> None:
            while True:
                await asyncio.sleep(every)
                try:
                    await work()
                except Exception:
                    log.exception("background task of %s failed, and is tried again", self._whose)

        self.go(again())

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background task of %s failed: %r", self._whose, error, exc_info=error)


async def to_the_end(work: Coroutine[Any, Any, Value]) -> Value:
    """Do what must not stop in the middle: if the caller is canceled meanwhile, it is so when the work is done."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # the caller that would get it has gone
        raise
