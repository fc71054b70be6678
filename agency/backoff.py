"""Backoff: how long to wait before something that failed is tried again.

The one idea: a `Backoff` is plain data and computes delays; it never sleeps and never looks at a clock, so one value
serves asyncio, threads and the pure turn machine. A loop asks `delays()` for the next wait, and starts a new `delays()`
to begin again after a success. Code that stores how often it has tried asks `delay(attempt)`.

This module must import neither `random` nor `time`: the turn machine uses it, and its replay has to be exact. Callers
that want jitter pass the source of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

MOST_DOUBLINGS = 64  # more change nothing but would overflow a float


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds that begin with `first` and double up to `longest`.

    waits = Backoff(0.1, 10.0).delays()
    while not await delivered():
        await asyncio.sleep(next(waits))
    """

    first: float
    longest: float

    def delay(self, attempt: int) -> float:
        """The wait after failed attempt number `attempt`; the first attempt is number 1."""
        doubled: float = self.first * 2 ** min(attempt - 1, MOST_DOUBLINGS)
        return min(doubled, self.longest)

    def delay_ms(self, attempt: int) -> int:
        """The same in whole milliseconds, as timers are stored."""
        return int(self.delay(attempt) * 1000)

    def delays(self, jitter: Callable[[], float] | None = None) -> Iterator[float]:
        """The waits one after the other, without end.

        With `jitter`, a source of numbers from 0 to 1 such as `random.random`, each wait is between half of its delay
        and all of it, so that many clients that lost the same server do not come back all at once.
        """
        attempt = 0
        while True:
            attempt += 1
            delay = self.delay(attempt)
            yield delay if jitter is None else delay * (0.5 + 0.5 * jitter())
