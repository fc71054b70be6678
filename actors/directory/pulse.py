"""Whether a host answers: it is pinged, and one that has been silent for too long is avoided, and then replaced.

Time here is the time in which the directory's own event loop has turned. A machine that was suspended, or one that is
so busy that the directory itself gets no turn, says nothing about its hosts: only what a host leaves unanswered while
the directory is at work counts against it.

A host that tells nothing by itself is asked every half of the time that it has. A ping that was not answered is not
repeated, so a host that is stopped has one of them waiting, and answers it as soon as it goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from ray.exceptions import RayError

from actors.host.watchdog import BlockedLoop

Verdict = Literal["answers", "silent", "lost"]

START_SILENT_SECONDS = 30.0
START_LOST_SECONDS = 300.0
"""The same for a host that starts: importing a system may take its time."""


class LoopTime:
    """Seconds that this process's event loop was at work, as far as `tick` is called every so often."""

    def __init__(self, every: float) -> None:
        self._most = 2 * every
        self._last = time.monotonic()
        self.now = 0.0

    def tick(self) -> None:
        now = time.monotonic()
        self.now += min(now - self._last, self._most)
        self._last = now


class Pulse:
    """Of one host. It begins when the host is started; `opened` says that the host is to be pinged from now on."""

    def __init__(self, clock: LoopTime, ping: Callable[[], Awaitable[object]]) -> None:
        self._clock = clock
        self._ping = ping
        self._silent_after, self._lost_after = START_SILENT_SECONDS, START_LOST_SECONDS
        self._heard_at = clock.now
        self._asked_at = clock.now
        self._asking: asyncio.Task[None] | None = None
        self._pings = False
        self.blocked_by: BlockedLoop | None = None
        """What holds up its event loop, as its watchdog says."""
        self.silence: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done while the host is silent."""

    @property
    def is_silent(self) -> bool:
        return self.silence.done()

    @property
    def silent_for(self) -> float:
        """Seconds since the host was last heard of."""
        return self._clock.now - self._heard_at

    def opened(self, silent_after: float, lost_after: float) -> None:
        """The host is ready, and has to answer within these times."""
        self._silent_after, self._lost_after = silent_after, max(silent_after, lost_after)
        self._pings = True
        self.heard()

    def told(self) -> None:
        """The host has told something by itself."""
        if not self.is_silent:  # else it may have done so before it fell silent
            self._heard_at = self._clock.now

    def heard(self) -> None:
        """The host has answered."""
        self._heard_at = self._clock.now
        self.blocked_by = None
        if self.is_silent:
            self.silence = asyncio.get_running_loop().create_future()

    def blocked(self, by: BlockedLoop) -> None:
        """The host's watchdog says that its event loop is held up. Only the answer to a later ping ends that."""
        self.blocked_by = by
        self._fall_silent()

    def look(self) -> Verdict:
        """Ping the host if it is time to. To be called every so often."""
        since = self._clock.now - max(self._asked_at, self._heard_at)
        if self._pings and self._asking is None and (self.is_silent or since >= self._silent_after / 2):
            self._asked_at = self._clock.now
            self._asking = asyncio.create_task(self._ask(was_silent=self.is_silent))
        if self.silent_for >= self._lost_after:
            return "lost"
        if self.silent_for >= self._silent_after:
            self._fall_silent()
        return "silent" if self.is_silent else "answers"

    def stop(self) -> None:
        """The host is gone. What waits for its silence goes on."""
        if self._asking is not None:
            self._asking.cancel()
        self._pings = False
        self._fall_silent()

    def _fall_silent(self) -> None:
        if not self.silence.done():
            self.silence.set_result(None)

    async def _ask(self, *, was_silent: bool) -> None:
        try:
            await self._ping()
        except RayError:
            return  # it has died, which the call that watches it tells
        finally:
            self._asking = None
        if was_silent or not self.is_silent:  # else it may have answered before its loop was held up: ask once more
            self.heard()
