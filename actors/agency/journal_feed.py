"""Reading an agency's journal, and waiting for what comes next.

A client that is up to date waits here until an update has been written. While a client waits, and for a while after,
the agency counts as watched: hosts then send their updates sooner.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from actors.agency.context import AgencyContext
from actors.agency.journal import Journal, JournalPage
from actors.operations import Seq, index_operation, operation, urgent
from actors.updates import ThreadUpdate
from agency.errors import InvalidInput, no_agency

PAGE_MOST = 10_000
WAIT_MOST = 30.0
LINGER_SECONDS = 15.0
"""How long after a wait for events the next one is expected."""


class JournalFeed:
    def __init__(self, context: AgencyContext) -> None:
        self._context = context
        self._journal = Journal(context.store)
        self._moved = asyncio.Event()
        self._watchers = 0
        self._watched_until = 0.0

    @property
    def watched(self) -> bool:
        """Whether a client waits for events, or did a moment ago."""
        return self._watchers > 0 or time.monotonic() < self._watched_until

    def write(self, updates: Sequence[ThreadUpdate]) -> None:
        """Write down how far threads have got. The clients that wait for events are to be woken when it is on disk."""
        self._journal.take(updates)

    def wake_watchers(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    @urgent
    @index_operation
    async def journal(self, after: Seq | None = 0, limit: int = 1_000) -> JournalPage:
        """Where the events after a cursor are; None is after the latest."""
        _check_limit(limit)
        return self._born(JournalPage((), self._journal.end) if after is None else self._journal.page(after, limit))

    @urgent
    @operation
    async def next_journal_page(self, after: Seq, limit: int = 1_000, *, wait: float) -> JournalPage:
        """The same as soon as there is at least one event; without any if none has come for so many seconds."""
        _check_limit(limit)
        if not 0 <= wait <= WAIT_MOST:
            raise InvalidInput(f"a page of events is waited for 0 to {WAIT_MOST:g} seconds, not {wait:g}")
        page = self._journal.page(after, limit)
        return self._born(page if page.upto > after else await self._next_page(after, limit, wait))

    async def _next_page(self, after: int, limit: int, wait: float) -> JournalPage:
        self._watchers += 1
        try:
            async with asyncio.timeout(wait):
                while (page := self._journal.page(after, limit)).upto == after:
                    await self._moved.wait()
                    if self._context.deleting:
                        raise no_agency(self._context.id)
        except TimeoutError:
            return JournalPage((), after)
        finally:
            self._watchers -= 1
            self._watched_until = time.monotonic() + LINGER_SECONDS
        return page

    def _born(self, page: JournalPage) -> JournalPage:
        return replace(page, born=self._context.store.info().created_at)


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= PAGE_MOST:
        raise InvalidInput(f"a page has 1 to {PAGE_MOST} events, not {limit}")
