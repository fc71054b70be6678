"""Performing the effects of a run, one after the other, in a task of its own.

The driver says which effect comes next (`follow`) and starts the loop; what the effect's answer leads to is followed
again, in the same task. There is at most one task at work. One that does not stop when it is told to is left behind:
it finds that it is no longer the loop's task, and begins nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agency.thread.current_run import CurrentRun
from agency.thread.workers import STOP_GRACE
from agency.turn.effects import Request


class EffectLoop:
    def __init__(
        self,
        run: CurrentRun,
        perform: Callable[[Request], Awaitable[None]],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._run = run
        self._perform = perform
        self._fail = fail
        self._next: Request | None = None
        self._task: asyncio.Task[None] | None = None
        self.closed = False
        self.stopped = False
        """While a run is being stopped, what is being performed may end, and nothing begins."""

    @property
    def busy(self) -> bool:
        return self._task is not None and not self._task.done()

    def follow(self, request: Request | None) -> None:
        """This effect is performed next; None if there is none."""
        self._next = request

    def start(self) -> None:
        """Perform what comes next, unless something is being performed: that will be followed by it."""
        if self._next is not None and not (self.busy or self.stopped or self.closed):
            self._task = asyncio.create_task(self._perform_all(), name=f"run {self._run.id}")

    async def stop(self) -> None:
        """Stop what is being performed, and begin nothing until `restart`."""
        self.stopped = True
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=2 * STOP_GRACE)
        if self._task is task:
            self._task = None  # one that will not stop is left behind

    def restart(self) -> None:
        self.stopped = False
        self.start()

    def close(self) -> None:
        """Begin nothing any more, and stop what is being performed, unless the caller is that task."""
        self.closed = True
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    async def _perform_all(self) -> None:
        try:
            while self._next is not None and not self.stopped and self._task is asyncio.current_task():
                request, self._next = self._next, None
                await self._perform(request)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._fail(error)
