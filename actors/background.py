"""Tasks that nobody waits for: kept from being forgotten, and heard when they fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)


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
        """Do it again and again. That it fails once does not end it."""

        async def again() -> None:
            while True:
                await asyncio.sleep(every)
                try:
                    await work()
                except Exception:
                    log.exception("%s stumbled", self._whose)

        self.go(again())

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s stumbled: %r", self._whose, error, exc_info=error)
