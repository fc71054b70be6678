"""Following an agency: the stored events of all its threads, one after the other, from any process that has the files.

The directory only says whose events came next (see `journal`). The events themselves are read here, from the threads'
files, without waking the threads. One poll serves all subscriptions to an agency in this process, and the latest events
are kept for subscriptions that are up to date; one that is behind reads the files at its own pace. So a slow reader
costs the others nothing, and whatever dies, each subscription goes on after the last cursor that it has got.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from ray.exceptions import RayError

from actors.address import Address, Files
from actors.agency.calls import AgencyCalls
from actors.agency.journal import Span
from actors.background import Background
from actors.caller import Caller
from actors.feeds.host_feed import NumberedEvent
from agency.backoff import Backoff
from agency.errors import AgencyError, NotFound, Unavailable
from agency.events import Event
from agency.store.peek import events_between

log = logging.getLogger(__name__)

POLL_SECONDS = 10.0
POLL_EVENTS = 2_000
PAGE = 500
KEPT = 5_000
"""The latest events of an agency that are kept in memory, at least, unless they are very long."""

KEPT_CHARS = 16_000_000
RETRIES = Backoff(0.05, 2.0)


@dataclass(frozen=True, slots=True)
class EventsPage:
    """Events that came one after the other. Some of them may be gone, or all."""

    events: list[NumberedEvent]
    upto: int
    """The cursor to go on after. If it is the cursor that was asked for, there are no more events."""
    born: str
    """When the agency was created, which tells it from another one that had its id before."""


class EventReader:
    """Reads the events of an agency in pages."""

    def __init__(self, caller: Caller, files: Files) -> None:
        self._caller = caller
        self._files = files

    async def page(self, agency: str, after: int | None, limit: int, wait: float = 0.0) -> EventsPage:
        """The next events after a cursor, at most so many; None is after the latest."""
        calls = AgencyCalls(self._caller, agency)
        if after is None or not wait:
            found = await calls.journal(after, limit)
        else:
            found = await calls.next_journal_page(after, limit, wait=wait)
        return EventsPage(await asyncio.to_thread(self._read, agency, found.spans), found.upto, found.born)

    async def events(self, agency: str, after: int, limit: int) -> list[NumberedEvent]:
        """So many events after a cursor, or all there are."""
        found: list[NumberedEvent] = []
        while len(found) < limit:
            page = await self.page(agency, after, limit - len(found))
            found += page.events
            if page.upto == after:
                break
            after = page.upto
        return found

    def _read(self, agency: str, spans: Sequence[Span]) -> list[NumberedEvent]:
        wanted: dict[tuple[str, str], list[Span]] = defaultdict(list)
        for span in spans:
            if span.thread:
                wanted[span.thread, span.born].append(span)
        found: list[NumberedEvent] = []
        for (thread, born), parts in wanted.items():  # the spans of one thread follow each other without a gap
            path = self._files.of(Address(agency, thread))
            events = {event.seq: event for event in events_between(path, parts[0].first, parts[-1].last, born)}
            found += [(n, _with_cursor(events[seq], n)) for n, seq in _numbers(parts) if seq in events]
        return sorted(found)


def _numbers(spans: Sequence[Span]) -> list[tuple[int, int]]:
    """Cursor and seq of each event."""
    return [(span.n + i, span.first + i) for span in spans for i in range(span.last - span.first + 1)]


def _with_cursor(event: Event, cursor: int) -> str:
    return f'{event.model_dump_json()[:-1]},"cursor":{cursor}}}'


class _AgencyFeed:
    """The latest events of one agency, for all its subscriptions in this process."""

    def __init__(self, agency: str) -> None:
        self.agency = agency
        self.start: int | None = None
        """The cursor after which events are kept; None while that is not known."""
        self.end = 0
        self.born = ""
        self.error: AgencyError | None = None
        self.changed = asyncio.Event()
        self.followers: set[AgencySubscription] = set()
        self.polling: asyncio.Task[None] | None = None
        self._kept: list[NumberedEvent] = []
        self._chars = 0

    def begin(self, page: EventsPage) -> None:
        self.start = self.end = page.upto
        self.born = page.born
        for follower in self.followers:
            follower.begin(page.upto)
        self._notify()

    def checked(self, page: EventsPage) -> EventsPage:
        if page.born != self.born:
            raise NotFound(f"agency {self.agency!r} was deleted, and another one has its id")
        return page

    def add(self, page: EventsPage) -> None:
        self._kept += page.events
        self._chars += sum(len(event) for _, event in page.events)
        self.end = page.upto
        if len(self._kept) > 2 * KEPT or (self._chars > KEPT_CHARS and len(self._kept) > 1):
            self._drop(len(self._kept) // 2)
        self._notify()

    def fail(self, error: AgencyError) -> None:
        self.error = error
        self._notify()

    def since(self, after: int, limit: int) -> list[NumberedEvent]:
        place = bisect_right(self._kept, after, key=lambda numbered: numbered[0])
        return self._kept[place : place + limit]

    def _drop(self, many: int) -> None:
        self.start = self._kept[many - 1][0]
        self._chars -= sum(len(event) for _, event in self._kept[:many])
        del self._kept[:many]

    def _notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class AgencySubscription:
    """One reader of an agency: events as JSON with their cursors, until it is closed or the agency is deleted."""

    def __init__(self, watcher: AgencyWatcher, feed: _AgencyFeed, after: int | None) -> None:
        self._watcher = watcher
        self._feed = feed
        self._after = after
        if feed.start is not None:
            self.begin(feed.end)

    def begin(self, end: int) -> None:
        """`end` is the latest cursor now. A subscription that wants only what comes from now on begins after it."""
        if self._after is None:
            self._after = end

    def close(self) -> None:
        self._watcher.drop(self._feed, self)

    async def __aiter__(self) -> AsyncIterator[NumberedEvent]:
        while True:
            events, upto = await self._page()
            for cursor, event in events:
                self._after = cursor
                yield cursor, event
            self._after = max(upto, self._after or 0)

    async def batches(self) -> AsyncIterator[list[NumberedEvent]]:
        """The same, with what is there all at once."""
        while True:
            events, upto = await self._page()
            self._after = max(upto, events[-1][0] if events else 0, self._after or 0)
            if events:
                yield events

    async def _page(self) -> tuple[list[NumberedEvent], int]:
        """The next events, and the cursor to go on after unless that is the last of them."""
        feed = self._feed
        while True:
            changed = feed.changed
            if feed.error is not None:
                raise feed.error
            if feed.start is None or self._after is None:
                await changed.wait()
                continue
            if self._after < feed.start:
                page = await self._watcher.catch_up(feed, self._after)
                return page.events, page.upto
            if events := feed.since(self._after, PAGE):
                return events, self._after
            self._after = max(feed.end, self._after)
            await changed.wait()


class AgencyWatcher:
    """All agencies that one process follows."""

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader
        self._feeds: dict[str, _AgencyFeed] = {}
        self._background = Background("an agency's feed")

    def subscribe(self, agency: str, after: int | None = 0) -> AgencySubscription:
        """Every event after a cursor, then those to come; None is from now on."""
        feed = self._feeds.get(agency)
        if feed is None:
            feed = self._feeds[agency] = _AgencyFeed(agency)
            feed.polling = self._background.go(self._poll(feed))
        subscription = AgencySubscription(self, feed, after)
        feed.followers.add(subscription)
        return subscription

    def drop(self, feed: _AgencyFeed, subscription: AgencySubscription) -> None:
        feed.followers.discard(subscription)
        if not feed.followers:
            self._end(feed)

    async def close(self) -> None:
        """End every subscription."""
        for feed in list(self._feeds.values()):
            feed.fail(Unavailable("the feed was closed here"))
            self._end(feed)
        await self._background.stop()

    async def catch_up(self, feed: _AgencyFeed, after: int) -> EventsPage:
        """A page from the files, as soon as they can be read."""
        waits = RETRIES.delays()
        while True:
            try:
                return feed.checked(await self._reader.page(feed.agency, after, PAGE))
            except NotFound:
                raise
            except (RayError, AgencyError) as error:
                if feed.error is not None:
                    raise feed.error from error
                await _rest(feed, error, next(waits))

    async def _poll(self, feed: _AgencyFeed) -> None:
        """Keep a feed up to date, as long as it is followed and the agency exists."""
        waits = RETRIES.delays()
        while feed.error is None:
            try:
                if feed.start is None:
                    feed.begin(await self._reader.page(feed.agency, None, 1))
                else:
                    feed.add(feed.checked(await self._reader.page(feed.agency, feed.end, POLL_EVENTS, POLL_SECONDS)))
                waits = RETRIES.delays()
            except NotFound as error:
                feed.fail(error)
                self._end(feed)
            except (RayError, AgencyError) as error:
                await _rest(feed, error, next(waits))

    def _end(self, feed: _AgencyFeed) -> None:
        if self._feeds.get(feed.agency) is feed:
            del self._feeds[feed.agency]
        if feed.polling is not None and feed.polling is not asyncio.current_task():
            feed.polling.cancel()


async def _rest(feed: _AgencyFeed, error: Exception, seconds: float) -> None:
    """Wait before the next try."""
    log.info("the events of agency %s cannot be read yet: %r", feed.agency, error)
    await asyncio.sleep(seconds)
