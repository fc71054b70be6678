"""Following threads from anywhere: one pull at a time for each host, however many threads are followed there.

A subscription yields every event after a seq, then those to come, whatever dies meanwhile: it counts the stored events
that it has got, and begins after the last of them wherever the thread is next awake. A slow reader holds up nothing:
text that waits for it is joined, and when its buffer is full, the thread is not followed for it until that is empty.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import lru_cache

from pydantic_core import from_json, to_json
from ray.exceptions import RayError

from actors.address import Address
from actors.answers import NotHere
from actors.background import Background
from actors.caller import Caller, Handle
from actors.feeds.host_feed import FeedBatch, NumberedEvent
from agency.backoff import Backoff
from agency.errors import AgencyError, Unavailable

log = logging.getLogger(__name__)

BUFFER = 2_000
"""Events kept for a subscriber that does not take them."""

AT_ONCE = 100
"""So many of them are a batch."""

RETRIES = Backoff(0.05, 2.0)


class Subscription:
    """One reader of one thread: events as JSON with their seqs, until it is closed or the thread is deleted."""

    def __init__(self, watcher: Watcher, number: int, address: Address, after: int) -> None:
        self._watcher = watcher
        self._buffer: deque[NumberedEvent] = deque()
        self._arrived = asyncio.Event()
        self._text_last = False  # the last event that has come in is text, which the next may continue
        self._detached = False
        self._error: AgencyError | None = None
        self.failures = 0
        """How often it has been looked for since events last came in."""
        self.number = number
        self.address = address
        self.after = after
        """The seq of the last stored event that has come in."""

    def feed(self, events: tuple[NumberedEvent, ...]) -> bool:
        """Take events in; False if some before them are missing."""
        for seq, event in events:
            if seq > self.after + 1:
                return False
            if seq == 0 and self._text_last and self._buffer:
                _, text = self._buffer.pop()
                self._buffer.extend((0, part) for part in joined(text, event))
            elif seq == 0 or seq == self.after + 1:
                self._buffer.append((seq, event))
            self._text_last = seq == 0
            self.after = max(seq, self.after)
            self.failures = 0
        self._arrived.set()
        if len(self._buffer) > BUFFER and not self._detached:
            self._detached = True
            self._watcher.detach(self)
        return True

    def fail(self, error: AgencyError) -> None:
        self._error = error
        self._arrived.set()

    def close(self) -> None:
        self._watcher.drop(self)

    async def __aiter__(self) -> AsyncIterator[NumberedEvent]:
        while True:
            while self._buffer:
                yield self._buffer.popleft()
            await self._more()

    async def batches(self) -> AsyncIterator[list[NumberedEvent]]:
        """The same, with what has come in by then all at once."""
        while True:
            while self._buffer:
                yield [self._buffer.popleft() for _ in range(min(len(self._buffer), AT_ONCE))]
            await self._more()

    async def _more(self) -> None:
        if self._error is not None:
            raise self._error
        if self._detached:
            self._detached = False
            self._watcher.attach(self)
        self._arrived.clear()
        await self._arrived.wait()


@lru_cache(maxsize=256)
def joined(text: str, more: str) -> tuple[str, ...]:
    """Two deltas as one, if they follow each other: a reader that is behind gets fewer and longer ones. If one of a
    thread's is behind, many are, with the same text."""
    first, second = from_json(text), from_json(more)
    one, two = first["data"], second["data"]
    if one["runId"] != two["runId"] or one["offset"] + len(one["delta"]) != two["offset"]:
        return text, more
    second["data"] = {**one, "delta": one["delta"] + two["delta"]}
    return (to_json(second).decode(),)


class _HostPulls:
    """The pulls from one host, as long as anything is followed there."""

    def __init__(self, name: str, host: Handle) -> None:
        self.name = name
        self.host = host
        self.followed: dict[int, tuple[Subscription, int]] = {}
        """Each with the activation at which it was found."""
        self.pulling = False
        self.untold: dict[int, tuple[Address, int] | None] = {}
        """Who begins to follow what after which seq, and who ends it, as far as the host has not been told."""
        self.told: asyncio.Future[None] | None = None
        """When the host knows what it was last told."""


class Watcher:
    """All threads that one process follows."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._name = secrets.token_hex(8)
        self._numbers = itertools.count(1)
        self._pulls: dict[str, _HostPulls] = {}
        self._open: dict[int, Subscription] = {}
        self._background = Background("a feed")

    def subscribe(self, address: Address, after: int = 0) -> Subscription:
        subscription = Subscription(self, next(self._numbers), address, after)
        self._open[subscription.number] = subscription
        self._background.go(self._attach(subscription, 0))
        return subscription

    async def close(self) -> None:
        """End every subscription, and tell the hosts that this process no longer pulls."""
        for subscription in self._open.values():
            subscription.fail(Unavailable("the feed was closed here"))
        self._open.clear()
        await self._background.stop()
        for pulls in self._pulls.values():
            pulls.host.forget.remote(self._name)
        self._pulls.clear()

    # What subscriptions ask.

    def detach(self, subscription: Subscription) -> None:
        self._background.go(self._detach(subscription))

    def attach(self, subscription: Subscription) -> None:
        self._background.go(self._attach(subscription, 0))

    def drop(self, subscription: Subscription) -> None:
        self._open.pop(subscription.number, None)
        self._background.go(self._detach(subscription))

    # Inside.

    async def _attach(self, subscription: Subscription, missed: int) -> None:
        """Follow a thread where it is awake; it is woken if it is not."""
        while subscription.number in self._open:
            if subscription.failures > 1:  # a thread that has moved is found at once
                await asyncio.sleep(RETRIES.delay(subscription.failures - 1))
            subscription.failures += 1
            try:
                location = await self._caller.locate(subscription.address, missed)
                missed = location.activation  # should it not be there, or not be reached
                host = await self._caller.host_named(location.host)
                if subscription.number not in self._open:
                    return
                pulls = self._pulls_from(location.host, host)
                pulls.followed[subscription.number] = (subscription, location.activation)
                try:
                    await self._tell(pulls, subscription.number, (subscription.address, subscription.after))
                except RayError:
                    self._caller.forget_host(location.host)
                    if pulls.followed.pop(subscription.number, None) is None:
                        return  # the pull has noticed first, and attaches it anew
                    raise
                return
            except (RayError, Unavailable) as error:
                log.info("%s cannot be followed yet: %r", subscription.address, error)
            except AgencyError as error:
                subscription.fail(error)
                return

    async def _detach(self, subscription: Subscription) -> None:
        for pulls in list(self._pulls.values()):
            if pulls.followed.pop(subscription.number, None) is not None:
                with suppress(RayError):
                    await self._tell(pulls, subscription.number, None)

    def _pulls_from(self, name: str, host: Handle) -> _HostPulls:
        pulls = self._pulls.get(name)
        if pulls is None:
            pulls = self._pulls[name] = _HostPulls(name, host)
        return pulls

    async def _tell(self, pulls: _HostPulls, number: int, wanted: tuple[Address, int] | None) -> None:
        """Tell a host of what has changed, together with all else that changes in the same turn of the loop."""
        pulls.untold[number] = wanted
        await asyncio.sleep(0)
        if pulls.untold:
            changes, pulls.untold = pulls.untold, {}
            pulls.told = asyncio.ensure_future(pulls.host.follow.remote(self._name, changes))
            if not pulls.pulling:  # by now, because a host knows only who has told it something
                pulls.pulling = True
                self._background.go(self._pull(pulls))
        assert pulls.told is not None
        await asyncio.shield(pulls.told)

    async def _pull(self, pulls: _HostPulls) -> None:
        """Pull from a host while anything is followed there and the host lives."""
        try:
            while pulls.followed:
                batch: FeedBatch | NotHere = await pulls.host.pull.remote(self._name)
                if isinstance(batch, NotHere):
                    break  # we did not pull for too long, and it has forgotten us
                self._hand_out(pulls, batch)
        except RayError as error:
            log.info("%s has died: %s", pulls.name, type(error).__name__)
            self._caller.forget_host(pulls.name)
        if self._pulls.get(pulls.name) is pulls:
            del self._pulls[pulls.name]
        lost, pulls.followed = pulls.followed, {}
        for subscription, activation in lost.values():
            self._background.go(self._attach(subscription, activation))

    def _hand_out(self, pulls: _HostPulls, batch: FeedBatch) -> None:
        for numbers, events in batch.fed:
            for number in numbers:
                if (known := pulls.followed.get(number)) is not None and not known[0].feed(events):
                    self._move(pulls, number)
        for number in batch.gone:
            self._move(pulls, number)

    def _move(self, pulls: _HostPulls, number: int) -> None:
        if (known := pulls.followed.pop(number, None)) is not None:
            self._background.go(self._attach(*known))
