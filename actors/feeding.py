"""A consumer's feed at one host: the events of all the threads that it follows there, in batches.

The consumer pulls. Between pulls only which threads have something new is kept; the events themselves are read when
they are asked for. So a slow consumer costs nobody anything and misses nothing, and of the text that models stream it
gets fewer and longer deltas.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from actors.address import Address
from actors.system_agent import SystemAgent
from agency.thread.feed import Reader

PULL_SECONDS = 10.0
"""A pull that finds nothing returns after so long."""

WINDOW = 0.003
"""What comes within this time goes together."""

BATCH_EVENTS = 2_000
LOST_SECONDS = 30.0

Fed = tuple[int, tuple[tuple[int, str], ...]]
"""News for one subscription: its number, and events as seq and JSON. What is not stored has seq 0."""


@dataclass(frozen=True, slots=True)
class Batch:
    fed: tuple[Fed, ...] = ()
    gone: tuple[int, ...] = ()
    """Subscriptions whose thread is no longer awake here: look for it anew."""


@dataclass(slots=True)
class _Followed:
    address: Address
    agent: SystemAgent
    reader: Reader
    ignore: Callable[[], None]


class Consumer:
    """Everything that one consumer follows at this host, by the consumer's own numbers."""

    def __init__(self) -> None:
        self._followed: dict[int, _Followed] = {}
        self._fresh: dict[int, None] = {}
        self._gone: list[int] = []
        self._changed = asyncio.Event()
        self._pulling = 0
        self._pulled = time.monotonic()

    @property
    def watched(self) -> set[Address]:
        return {followed.address for followed in self._followed.values()}

    def follow(self, number: int, address: Address, agent: SystemAgent | None, after: int) -> None:
        """Follow a thread after a seq; one that is not awake is gone."""
        self.drop(number)
        if agent is None:
            self._gone.append(number)
        else:
            ignore = agent.listen(lambda: self._note(number))
            self._followed[number] = _Followed(address, agent, agent.reader(after), ignore)
        self._note(number)

    def drop(self, number: int) -> None:
        self._fresh.pop(number, None)
        if (followed := self._followed.pop(number, None)) is not None:
            followed.ignore()

    async def pull(self) -> Batch:
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
            return Batch()
        finally:
            self._pulling -= 1
            self._pulled = time.monotonic()

    def is_lost(self, now: float) -> bool:
        return self._pulling == 0 and now - self._pulled > LOST_SECONDS

    def close(self) -> None:
        for number in list(self._followed):
            self.drop(number)

    def _take(self) -> Batch:
        fed: list[Fed] = []
        left = BATCH_EVENTS
        for number in list(self._fresh):
            if left <= 0:
                break
            del self._fresh[number]
            followed = self._followed.get(number)
            if followed is None:
                continue
            if not followed.agent.alive:
                self.drop(number)
                self._gone.append(number)
                continue
            events = followed.reader.take(left)
            if len(events) >= left:
                self._fresh[number] = None  # at the end: there may be more, and others wait
            left -= len(events)
            if events:
                fed.append((number, tuple((event.seq or 0, event.model_dump_json()) for event in events)))
        gone, self._gone = tuple(self._gone), []
        return Batch(tuple(fed), gone)

    def _note(self, number: int) -> None:
        self._fresh[number] = None
        self._changed.set()
