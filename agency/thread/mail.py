"""A thread's background work: delivering what is in the outbox, and firing timers when they are due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from agency.errors import AgencyError
from agency.runtime import Runtime
from agency.store import records
from agency.store.draft import Draft
from agency.store.store import ThreadStore
from agency.wire import now_ms

log = logging.getLogger(__name__)

RETRY_FIRST = 0.1
RETRY_MOST = 10.0


class Postman:
    """Delivers the outbox, in order, until it is empty; what fails is tried again, later and later."""

    def __init__(self, store: ThreadStore, runtime: Runtime, commit: Callable[[Draft], None]) -> None:
        self._store = store
        self._runtime = runtime
        self._commit = commit
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._deliver_all(), name=f"outbox {self._store.thread_id}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _deliver_all(self) -> None:
        wait = RETRY_FIRST
        while (letter := records.next_parcel(self._store)) is not None:
            seq, parcel = letter
            try:
                await self._runtime.deliver(parcel)
            except Exception as error:
                log.warning("%s: cannot deliver %s to %s: %r", self._store.thread_id, parcel.kind, parcel.to, error)
                await asyncio.sleep(wait)
                wait = min(2 * wait, RETRY_MOST)
                continue
            wait = RETRY_FIRST
            draft = self._store.draft()
            records.acknowledge(draft, seq)
            try:
                self._commit(draft)
            except AgencyError:
                return  # the activation is over; whoever opens the file next delivers again


class Clock:
    """Fires a thread's timers. They are in the file; this only knows when to look."""

    def __init__(self, store: ThreadStore, fire: Callable[[str], None]) -> None:
        self._store = store
        self._fire = fire
        self._handle: asyncio.TimerHandle | None = None

    def set(self) -> None:
        """Look at the timers, now or when the next one is due."""
        self.stop()
        timers = records.timers(self._store)
        if timers:
            wait = max(0, timers[0][1] - now_ms()) / 1000
            self._handle = asyncio.get_running_loop().call_later(wait, self._look)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _look(self) -> None:
        try:
            for name in [name for name, due in records.timers(self._store) if due <= now_ms()]:
                self._fire(name)
        except AgencyError as error:
            log.warning("%s: timers stop: %s", self._store.thread_id, error)
            return
        self.set()
