"""What a system provides (`ctx.deps`), open in this process, for the threads of one event loop.

The one idea: a task of its own enters the factory's context manager and leaves it, because some of them must be left by
the task that entered. What cannot be opened keeps no thread shut: `ctx.deps` says why it is not there, and opening is
tried again, less and less often. Nothing of this is stored or pickled.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from agency.backoff import Backoff
from agency.define.provided import NO_MANAGER, UNSET, Factory, Provided, ProvidesNothing, Provision
from agency.errors import ToolError
from agency.thread.workers import TimedOut, is_ours, what_failed, within

log = logging.getLogger(__name__)

OPEN_SECONDS = 10.0
CLOSE_SECONDS = 5.0
AGAIN = Backoff(1.0, 60.0)

NAME = "deps"
"""By which problems with it are told."""


class Supply:
    def __init__(self, provision: Provision) -> None:
        self._provision = provision
        self._lock = asyncio.Lock()
        self._held: HeldOpen | None = None
        self._failed = 0
        self._again_at = 0.0
        self.problem = ""

    def __reduce__(self) -> tuple[Callable[[], Provided], tuple[()]]:
        return ProvidesNothing, ()

    def get(self) -> object:
        """What tools and hooks get as `ctx.deps`."""
        if (at_hand := self._provision.at_hand) is not UNSET:
            return at_hand
        if self._held is not None and self._held.value is not UNSET:
            return self._held.value
        if self._provision.factory is None:
            raise ToolError("the system provides no ctx.deps: give it by system.provide(…)", kind="unavailable")
        raise ToolError(self.problem or "ctx.deps is not open yet", kind="unavailable")

    @property
    def waiting(self) -> bool:
        """Whether there is something that is not open."""
        return self._provision.at_hand is UNSET and self._provision.factory is not None and self._held is None

    async def open(self) -> str:
        """Open it, unless it is open or has just failed. Returns the problem, if there is one."""
        async with self._lock:
            factory = self._provision.factory
            if not self.waiting or factory is None:
                return ""
            if time.monotonic() < self._again_at:
                return self.problem
            held = HeldOpen(factory)
            self.problem = await _problem("opened", OPEN_SECONDS, held)
            if not self.problem:
                self._held, self._failed = held, 0
                return ""
            self._failed += 1
            wait = AGAIN.delay(self._failed)
            self._again_at = time.monotonic() + wait
            log.warning("%s; it is tried again after %g s", self.problem, wait)
            return self.problem

    async def close(self) -> None:
        """Close what is open. What that raises is logged."""
        held, self._held = self._held, None
        if held is not None and (problem := await _problem("closed", CLOSE_SECONDS, held)):
            log.warning("%s", problem)


async def _problem(what: str, seconds: float, held: HeldOpen) -> str:
    """What went wrong with opening or closing, in words; nothing if it went well."""
    try:
        await within(seconds, held.open() if what == "opened" else held.close())
    except TimedOut:
        held.abandon()
        return f"what the system provides could not be {what}: it took longer than {seconds:g} s"
    except BaseException as error:
        if is_ours(error):
            held.abandon()
            raise
        return f"what the system provides could not be {what}: {what_failed(error)}"
    return ""


class HeldOpen:
    """The task that holds a context manager open, and the value that it gave."""

    def __init__(self, factory: Factory) -> None:
        self._factory = factory
        self._ready = asyncio.Event()
        self._leave = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.value: object = UNSET

    async def open(self) -> None:
        self._task = asyncio.create_task(self._hold(), name=NAME)
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait({self._task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if not self._ready.is_set():
            ready.cancel()
            await self._task
            raise RuntimeError("its context manager ended without a value")

    async def close(self) -> None:
        self._leave.set()
        if self._task is not None:
            await self._task

    def abandon(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _hold(self) -> None:
        try:
            manager = self._factory()
            if not hasattr(type(manager), "__aenter__"):
                raise TypeError(f"the factory gives a {type(manager).__name__} and {NO_MANAGER}")
            async with manager as value:
                self.value = value
                self._ready.set()
                await self._leave.wait()
        finally:
            self.value = UNSET
