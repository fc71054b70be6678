"""Alarms: when threads that hibernate have to be awake again, and when agencies have schedules to run. They are in
memory only: what lasts is in the files, from which a new directory sets them again.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Mapping
from contextlib import suppress

from actors.address import Address
from agency.clock import now_ms

LOOK_SECONDS = 60.0
"""After so long it looks at the clock, which may have been set."""

STALE_MOST = 1_000


class Alarms:
    def __init__(self, wake: Callable[[Address], object]) -> None:
        self._wake = wake
        self._due: dict[Address, int] = {}
        self._queue: list[tuple[int, Address]] = []
        self._changed = asyncio.Event()

    def set(self, address: Address, due: int) -> None:
        self._due[address] = due
        heapq.heappush(self._queue, (due, address))
        if len(self._queue) > 2 * len(self._due) + STALE_MOST:  # most of them are of alarms that were set anew
            self._queue = [(due, address) for address, due in self._due.items()]
            heapq.heapify(self._queue)
        self._changed.set()

    def no_later(self, address: Address, due: int) -> None:
        """Set an alarm, unless an earlier one is set."""
        if (known := self._due.get(address)) is None or due < known:
            self.set(address, due)

    def drop(self, address: Address) -> None:
        self._due.pop(address, None)

    def all(self) -> Mapping[Address, int]:
        return self._due

    async def ring(self) -> None:
        """Wake each when it is due, for ever."""
        while True:
            self._changed.clear()
            while self._queue and self._queue[0][0] <= now_ms():
                due, address = heapq.heappop(self._queue)
                if self._due.get(address) == due:
                    del self._due[address]
                    self._wake(address)
            wait = min(LOOK_SECONDS, (self._queue[0][0] - now_ms()) / 1000) if self._queue else None
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), wait)
