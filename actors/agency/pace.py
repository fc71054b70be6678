"""The pace at which an agency starts threads by itself: for its schedules, and as subagents of its threads.

No request makes these, so no rate of a gateway holds them. What comes too fast waits for its turn, in the order in
which it came, and nothing is lost: what is to be started is in a file already, the agency's or the parent's.
"""

from __future__ import annotations

import asyncio
import time

AT_ONCE_SECONDS = 10.0
"""An agency that has started nothing for so long may start as much as that time allows, at once."""


class Pace:
    def __init__(self, per_second: float) -> None:
        self._each = 1 / per_second
        self._next = 0.0
        """When the next start is due if none is to come sooner than the pace allows; before now, some may."""

    async def turn(self) -> None:
        """Return when one more may be started."""
        now = time.monotonic()
        self._next = max(self._next, now - AT_ONCE_SECONDS) + self._each
        if (wait := self._next - now) > 0:
            await asyncio.sleep(wait)
