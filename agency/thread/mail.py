"""A thread's background work: delivering what is in the outbox, and firing timers when they are due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from agency.children import outbox
from agency.children.parcels import AnyParcel
from agency.clock import now_ms
from agency.errors import AgencyError
from agency.runtime import Runtime
from agency.store.draft import Draft
from agency.store.store import ThreadStore
from agency.store.timers import Timer, next_due, timers

log = logging.getLogger(__name__)

RETRY_FIRST = 0.1
RETRY_MOST = 10.0


class Postman:
    """Delivers the outbox, in order for each addressee; what fails is tried again, later and later."""

    def __init__(self, store: ThreadStore, runtime: Runtime, commit: Callable[[Draft], None]) -> None:
        self._store = store
        self._runtime = runtime
        self._commit = commit
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def start(self) -> None:
        if not self._stopped and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._deliver_all(), name=f"outbox {self._store.thread_id}")

    @property
    def busy(self) -> bool:
        """Whether something is still to be delivered."""
        return self._task is not None and not self._task.done()

    async def stop(self) -> None:
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _deliver_all(self) -> None:
        wait = RETRY_FIRST
        while letters := outbox.parcels(self._store):
            unreachable: set[str] = set()
            for seq, parcel in letters:
                if parcel.to not in unreachable and not await self._deliver(seq, parcel):
                    unreachable.add(parcel.to)
            if unreachable:
                await asyncio.sleep(wait)
            wait = min(2 * wait, RETRY_MOST) if unreachable else RETRY_FIRST

    async def _deliver(self, seq: int, parcel: AnyParcel) -> bool:
        try:
            await self._runtime.deliver(parcel)
        except Exception as error:
            log.warning("%s: cannot deliver %s to %s: %r", self._store.thread_id, parcel.kind, parcel.to, error)
            return False
        draft = self._store.draft()
        outbox.acknowledge(draft, seq)
        self._commit(draft)
        return True


class Clock:
    """Fires a thread's timers. They are in the file; this only knows when to look."""

    def __init__(self, store: ThreadStore, fire: Callable[[Timer], None]) -> None:
        self._store = store
        self._fire = fire
        self._handle: asyncio.TimerHandle | None = None
        self._stopped = False

    def set(self) -> None:
        """Look at the timers, now or when the next one is due."""
        if self._handle is not None:
            self._handle.cancel()
        due = None if self._stopped else next_due(self._store)
        if due is not None:
            wait = max(0, due - now_ms()) / 1000
            self._handle = asyncio.get_running_loop().call_later(wait, self._look, due)

    def stop(self) -> None:
        self._stopped = True
        if self._handle is not None:
            self._handle.cancel()

    def _look(self, expected: int) -> None:
        now = max(expected, now_ms())  # the wall clock may have been set back meanwhile
        try:
            for timer in [timer for timer, due in timers(self._store) if due <= now]:
                self._fire(timer)
        except AgencyError as error:
            log.warning("%s: timers stop: %s", self._store.thread_id, error)
            return
        self.set()
