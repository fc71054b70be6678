"""Updates on their way into the agencies' files: gathered from all hosts, and written in rounds. Updates that arrive
during a round are written together in the next one.

On local storage, writing happens on the loop that serves the agencies, one after the other. So each round is followed
by a rest of four times its length, which keeps the loop free for four fifths of the time. On shared storage a round
waits for the disk without holding up the loop, and there is no rest.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterable

from actors.agency_host.agencies import Agencies
from actors.background import Background
from actors.updates import ThreadUpdate
from agency.errors import Damaged, NotFound

log = logging.getLogger(__name__)

REST = 4.0
"""For every second of writing, so many without."""


class _Round:
    """The updates that are written together."""

    def __init__(self) -> None:
        self.updates: dict[str, list[ThreadUpdate]] = defaultdict(list)
        self.done: asyncio.Future[frozenset[str]] = asyncio.get_running_loop().create_future()


class IndexWriter:
    def __init__(self, agencies: Agencies, background: Background, rest: float) -> None:
        self._rest = rest
        self._spent = 0.0
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

    async def _write_rounds(self) -> None:
        try:
            while (now := self._next) is not None:
                self._next = None
                self._spent = 0.0
                now.done.set_result(frozenset(await self._write_round(now)))
                await asyncio.sleep(self._rest * self._spent)
        finally:
            self._writing = False

    async def _write_round(self, now: _Round) -> set[str]:
        """The agencies whose files could not be written."""
        writing: dict[str, asyncio.Task[bool]] = {}
        for agency, updates in now.updates.items():
            writing[agency] = asyncio.create_task(self._write_agency(agency, updates))
            await asyncio.sleep(0)  # so that it does what it can at once, and others go on in between
        written = await asyncio.gather(*writing.values())
        return {agency for agency, done in zip(writing, written, strict=True) if not done}

    async def _write_agency(self, agency: str, updates: list[ThreadUpdate]) -> bool:
        began = time.perf_counter()
        try:
            await self._agencies.take(agency, updates)
        except NotFound:
            pass  # it was deleted
        except Damaged as error:  # once it is restored, the next directory finds in the threads' files what it lacks
            log.warning("updates of the threads of agency %s are not written: %s", agency, error)
        except Exception as error:
            log.warning("updates of the threads of agency %s cannot be written yet: %r", agency, error)
            return False
        finally:
            self._spent += time.perf_counter() - began
        return True
