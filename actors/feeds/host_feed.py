"""A consumer's feed at one host: the events of all the threads that it follows there, in batches.

The consumer pulls. Between pulls the host keeps only which threads have something new; the events themselves are read
when they are asked for. So a slow consumer costs the host nothing and misses nothing, and of the text that models
stream it gets fewer and longer deltas.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from actors.address import Address
from agency.thread.feed import Reader, ReadPosition

PULL_SECONDS = 10.0
"""A pull that finds nothing returns after so long."""

WINDOW = 0.003
"""What comes within this time goes together."""

BATCH_EVENTS = 2_000
LOST_SECONDS = 30.0

NumberedEvent = tuple[int, str]
"""An event as JSON, with its number in front: its seq, or its cursor among all events of its agency. Text that a model
streams is not stored and has the number 0. With the number beside it, an event need not be parsed on its way."""

Fed = tuple[tuple[int, ...], tuple[NumberedEvent, ...]]
"""What is new for subscriptions that were at the same place: their numbers, and events with their seqs. It is read,
written as JSON and sent once, however many they are."""


class FollowedThread(Protocol):
    """A thread that is awake in this host, as its feeds see it."""

    @property
    def alive(self) -> bool: ...

    def reader(self, after: int) -> Reader: ...

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]: ...


@dataclass(frozen=True, slots=True)
class FeedBatch:
    fed: tuple[Fed, ...] = ()
    gone: tuple[int, ...] = ()
    """Subscriptions whose thread is no longer awake here: look for it anew."""


@dataclass(slots=True)
class _Followed:
    """A thread, and the positions of its readers, by the consumer's numbers."""

    address: Address
    thread: FollowedThread
    readers: dict[int, Reader]
    ignore: Callable[[], None]


class Consumer:
    """Everything that one consumer follows at this host, by the consumer's own numbers."""

    def __init__(self) -> None:
        self._followed: dict[FollowedThread, _Followed] = {}
        self._threads: dict[int, FollowedThread] = {}
        self._fresh: dict[FollowedThread, None] = {}
        self._gone: list[int] = []
        self._changed = asyncio.Event()
        self._pulling = 0
        self._pulled = time.monotonic()

    @property
    def watched(self) -> set[Address]:
        return {followed.address for followed in self._followed.values()}

    def follow(self, number: int, address: Address, thread: FollowedThread | None, after: int) -> None:
        """Follow a thread after a seq. Without a thread, the consumer learns with its next pull that it is gone."""
        self.drop(number)
        if thread is None:
            self._gone.append(number)
            self._changed.set()
            return
        followed = self._followed.get(thread)
        if followed is None:
            ignore = thread.listen(lambda: self._note(thread))
            followed = self._followed[thread] = _Followed(address, thread, {}, ignore)
        followed.readers[number] = thread.reader(after)
        self._threads[number] = thread
        self._note(thread)

    def drop(self, number: int) -> None:
        thread = self._threads.pop(number, None)
        if thread is not None:
            followed = self._followed[thread]
            del followed.readers[number]
            if not followed.readers:
                followed.ignore()
                del self._followed[thread]
                self._fresh.pop(thread, None)

    async def pull(self) -> FeedBatch:
        """The next batch; an empty one if nothing happens for a while."""
        self._pulling += 1
        try:
            async with asyncio.timeout(PULL_SECONDS):
                while True:
                    if not (self._fresh or self._gone):
                        self._changed.clear()
                        await self._changed.wait()
                    await asyncio.sleep(WINDOW)
                    batch = self._take()
                    if batch.fed or batch.gone:
                        return batch
        except TimeoutError:
            return FeedBatch()
        finally:
            self._pulling -= 1
            self._pulled = time.monotonic()

    def is_lost(self, now: float) -> bool:
        return self._pulling == 0 and now - self._pulled > LOST_SECONDS

    def close(self) -> None:
        for number in list(self._threads):
            self.drop(number)

    def _take(self) -> FeedBatch:
        fed: list[Fed] = []
        left = BATCH_EVENTS
        for thread in list(self._fresh):
            if left <= 0:
                break
            del self._fresh[thread]
            followed = self._followed[thread]
            if thread.alive:
                left = self._take_from(followed, left, fed)
            else:
                self._gone += followed.readers
                for number in list(followed.readers):
                    self.drop(number)
        gone, self._gone = tuple(self._gone), []
        return FeedBatch(tuple(fed), gone)

    def _take_from(self, followed: _Followed, left: int, fed: list[Fed]) -> int:
        """What is new in one thread for each of its readers; how many more events there may be."""
        taken: dict[ReadPosition, tuple[list[int], tuple[NumberedEvent, ...], ReadPosition]] = {}
        for number, reader in list(followed.readers.items()):
            position = reader.position
            if position in taken:
                numbers, _, there = taken[position]
                numbers.append(number)
                reader.move(there)
            elif left > 0:
                found = reader.take(left)
                if len(found) >= left:  # there may be more: other readers come first then
                    self._fresh[followed.thread] = None
                    followed.readers[number] = followed.readers.pop(number)
                left -= len(found)
                events = tuple((event.seq or 0, event.model_dump_json()) for event in found)
                taken[position] = [number], events, reader.position
            else:
                self._fresh[followed.thread] = None
        fed += [(tuple(numbers), events) for numbers, events, _ in taken.values() if events]
        return left

    def _note(self, thread: FollowedThread) -> None:
        self._fresh[thread] = None
        self._changed.set()
