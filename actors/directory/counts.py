"""How many threads there are, and how many of them wait for a person, over all agencies.

The agencies' files tell, also those of agencies that sleep. They are asked at most every few seconds, and more rarely
if there are so many that asking takes its time.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from actors.address import Address, Files
from actors.agency.store import peek_counts

FRESH_SECONDS = 3.0
REST = 20.0
"""For every second of asking, so many without."""


@dataclass(frozen=True, slots=True)
class Counted:
    threads: int
    waiting: int
    """For a person."""


class Census:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._counting: asyncio.Task[Counted] | None = None
        self._fresh_until = 0.0

    async def take(self) -> Counted:
        """As it was a few seconds ago."""
        stale = self._counting is None or (self._counting.done() and time.monotonic() >= self._fresh_until)
        if self._counting is None or stale:
            self._counting = asyncio.create_task(self._count())
        return await asyncio.shield(self._counting)

    async def _count(self) -> Counted:
        began = time.monotonic()
        counted = await asyncio.to_thread(self._look)
        took = time.monotonic() - began
        self._fresh_until = time.monotonic() + max(FRESH_SECONDS, REST * took)
        return counted

    def _look(self) -> Counted:
        found = [peek_counts(self._files.of(Address(agency))) for agency in self._files.agencies()]
        return Counted(sum(threads for threads, _ in found), sum(waiting for _, waiting in found))
