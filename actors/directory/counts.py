"""How many threads there are, and how many of them wait for a person, over all agencies.

The agencies' files are read, also those of agencies that are asleep. They are read at most every few seconds, and more
rarely if there are so many that reading takes its time.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from actors.address import Address, Files
from actors.agency.peek import peek_counts

FRESH_SECONDS = 3.0
REST = 20.0
"""For every second of counting, so many without."""


@dataclass(frozen=True, slots=True)
class Counted:
    threads: int
    waiting: int
    """For a person."""


class ThreadCounts:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._counting: asyncio.Task[Counted] | None = None
        self._fresh_until = 0.0

    async def current(self) -> Counted:
        """The counts of a few seconds ago. Callers that come while counting goes on share its result."""
        stale = self._counting is None or (self._counting.done() and time.monotonic() >= self._fresh_until)
        if self._counting is None or stale:
            self._counting = asyncio.create_task(self._count())
        return await asyncio.shield(self._counting)

    async def _count(self) -> Counted:
        began = time.monotonic()
        counted = await asyncio.to_thread(self._read_files)
        took = time.monotonic() - began
        self._fresh_until = time.monotonic() + max(FRESH_SECONDS, REST * took)
        return counted

    def _read_files(self) -> Counted:
        found = [peek_counts(self._files.of(Address(agency))) for agency in self._files.agencies()]
        return Counted(sum(threads for threads, _ in found), sum(waiting for _, waiting in found))
