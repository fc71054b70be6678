"""Updates on their way into the agencies' files: gathered from all hosts, and written one agency after the other.

Writing happens on the directory's own loop, and on shared storage a write takes its time. So each round is followed by
a rest of four times its length, which keeps the loop free for four fifths of the time; updates that arrive meanwhile
are written together in the next round.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterable

from actors.background import Background
from actors.directory.agencies import Agencies
from actors.updates import ThreadUpdate
from agency.errors import Damaged, NotFound

log = logging.getLogger(__name__)

REST = 4.0
"""For every second of writing, so many without."""

RETRY_SECONDS = 1.0


class _Round:
    """The updates that are written together."""

    def __init__(self) -> None:
        self.updates: dict[str, list[ThreadUpdate]] = defaultdict(list)
        self.done: asyncio.Future[frozenset[str]] = asyncio.get_running_loop().create_future()


class IndexWriter:
    def __init__(self, agencies: Agencies, background: Background) -> None:
        self._agencies = agencies
        self._background = background
        self._next: _Round | None = None
        self._writing = False

    async def write(self, updates: Iterable[ThreadUpdate]) -> frozenset[str]:
        """Write updates. Returns once that is done, with the agencies whose files could not be written."""
        if self._next is None:
            self._next = _Round()
        for update in updates:
            self._next.updates[update.address.agency].append(update)
        joined = self._next
        if not self._writing:
            self._writing = True
            self._background.go(self._write_rounds())
        return await asyncio.shield(joined.done)

    async def write_until_done(self, updates: list[ThreadUpdate]) -> None:
        """Write updates that no host will send again, however often it takes."""
        while left := await self.write(updates):
            await asyncio.sleep(RETRY_SECONDS)
            updates = [update for update in updates if update.address.agency in left]

    async def _write_rounds(self) -> None:
        try:
            while (now := self._next) is not None:
                self._next = None
                spent, left = 0.0, set()
                for agency, updates in now.updates.items():
                    began = time.perf_counter()
                    if not self._write_agency(agency, updates):
                        left.add(agency)
                    spent += time.perf_counter() - began
                    await asyncio.sleep(0)
                now.done.set_result(frozenset(left))
                await asyncio.sleep(REST * spent)
        finally:
            self._writing = False

    def _write_agency(self, agency: str, updates: list[ThreadUpdate]) -> bool:
        try:
            self._agencies.take(agency, updates)
        except NotFound:
            pass  # it was deleted
        except Damaged as error:  # once it is restored, the next directory finds in the threads' files what it lacks
            log.warning("updates of the threads of agency %s are not written: %s", agency, error)
        except Exception as error:
            log.warning("updates of the threads of agency %s cannot be written yet: %r", agency, error)
            return False
        return True
