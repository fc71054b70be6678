"""The postman: delivers what is in a thread's outbox, in the background.

A parcel is in the outbox, on disk, from the commit that sends it until its addressee has it on disk too. So a crash
loses none and may deliver one twice; receiving is idempotent. The postman keeps nothing of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from agency.backoff import Backoff
from agency.children import outbox
from agency.children.parcels import AnyParcel
from agency.runtime import Runtime
from agency.store.draft import Draft
from agency.store.store import ThreadStore

log = logging.getLogger(__name__)

RETRY = Backoff(0.1, 10.0)


class Postman:
    """Delivers in order for each addressee; what fails is tried again, later and later."""

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
        waits = RETRY.delays()
        while letters := await self._parcels():
            unreachable: set[str] = set()  # later parcels to these must not overtake the one that failed
            for seq, parcel in letters:
                if parcel.to not in unreachable and not await self._deliver(seq, parcel):
                    unreachable.add(parcel.to)
            if unreachable:
                await asyncio.sleep(next(waits))
            else:
                waits = RETRY.delays()

    async def _parcels(self) -> list[tuple[int, AnyParcel]]:
        """What is in the outbox, on disk."""
        await self._store.durable()
        return outbox.parcels(self._store)

    async def _deliver(self, seq: int, parcel: AnyParcel) -> bool:
        try:
            await self._runtime.deliver(parcel)
        except Exception as error:
            log.warning(
                "thread %s cannot deliver a %s to %s yet: %r", self._store.thread_id, parcel.kind, parcel.to, error
            )
            return False
        await self._store.quiet()
        draft = self._store.draft()
        outbox.acknowledge(draft, seq)
        self._commit(draft)
        return True
