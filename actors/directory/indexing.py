"""Updates on their way into the agencies' files: gathered from all hosts, and written one agency after the other.

That is done on the directory's own loop, and on shared storage a write takes its time. So there is a pause after each
round, as long as the loop needs to be free most of the time; what comes meanwhile goes together in the next.
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
from agency.errors import NotFound

log = logging.getLogger(__name__)

PAUSE = 4.0
"""For every second of writing, so many without."""

AGAIN_SECONDS = 1.0


class _Round:
    """What is written together."""

    def __init__(self) -> None:
        self.news: dict[str, list[ThreadUpdate]] = defaultdict(list)
        self.done: asyncio.Future[frozenset[str]] = asyncio.get_running_loop().create_future()


class Desk:
    def __init__(self, agencies: Agencies, background: Background) -> None:
        self._agencies = agencies
        self._background = background
        self._next: _Round | None = None
        self._writing = False

    async def take(self, news: Iterable[ThreadUpdate]) -> frozenset[str]:
        """Write news. Returns once that is done, with the agencies whose files could not be written."""
        if self._next is None:
            self._next = _Round()
        for each in news:
            self._next.news[each.address.agency].append(each)
        joined = self._next
        if not self._writing:
            self._writing = True
            self._background.go(self._write_all())
        return await asyncio.shield(joined.done)

    async def see_to(self, news: list[ThreadUpdate]) -> None:
        """Write news that nobody will tell again, however often it takes."""
        while left := await self.take(news):
            await asyncio.sleep(AGAIN_SECONDS)
            news = [each for each in news if each.address.agency in left]

    async def _write_all(self) -> None:
        try:
            while (now := self._next) is not None:
                self._next = None
                spent, left = 0.0, set()
                for agency, news in now.news.items():
                    began = time.perf_counter()
                    if not self._write(agency, news):
                        left.add(agency)
                    spent += time.perf_counter() - began
                    await asyncio.sleep(0)
                now.done.set_result(frozenset(left))
                await asyncio.sleep(PAUSE * spent)
        finally:
            self._writing = False

    def _write(self, agency: str, news: list[ThreadUpdate]) -> bool:
        try:
            self._agencies.take(agency, news)
        except NotFound:
            pass  # it was deleted
        except Exception as error:
            log.warning("what the threads of agency %s do cannot be written down yet: %r", agency, error)
            return False
        return True
