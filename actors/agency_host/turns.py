"""Turns: calls of agencies are served fairly, whatever one of them sends.

The agencies of one agency host are called in one process, on one event loop. What a call does until it first awaits is
its turn, and between two turns the loop does whatever else is ready, such as what hosts report. Agencies with calls
that wait take turns, one each. So an agency with a thousand calls costs another one the time of one turn, if no turn is
long: an operation that has much to do gives way in between (`again`).

Of one agency only some calls are at work at once, and only so many calls and bytes may be here at all; beyond that it
is told to come back (`RateLimited`). Urgent calls go before its others and are never refused: those of its running
threads, of feeds, and whether a key is right. A call whose caller has gone leaves the queue.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from agency.errors import RateLimited

AT_ONCE = 32
"""Calls of one agency that are at work at a time. Most of them wait for hosts."""

_Waiting = deque["asyncio.Future[None]"]


class _Line:
    """The calls of one agency."""

    def __init__(self) -> None:
        self.urgent: _Waiting = deque()
        self.waiting: _Waiting = deque()
        self.at_work = 0
        self.calls = 0
        """Those that wait and those that are at work, urgent ones left out."""
        self.bytes = 0

    @property
    def can_go(self) -> bool:
        _drop_gone(self.urgent)
        _drop_gone(self.waiting)
        return bool(self.urgent) or (bool(self.waiting) and self.at_work < AT_ONCE)

    def let_go(self) -> None:
        """Let the next one have its turn."""
        if self.urgent:
            self.urgent.popleft().set_result(None)
        else:
            self.at_work += 1
            self.waiting.popleft().set_result(None)


class Turns:
    def __init__(self, calls_most: int, bytes_most: int) -> None:
        self._calls_most = calls_most
        self._bytes_most = bytes_most
        self._lines: dict[str, _Line] = {}
        self._order: OrderedDict[str, None] = OrderedDict()
        """The agencies with calls that can go, the next one first."""
        self._turning = False

    @asynccontextmanager
    async def call(self, agency: str, size: int = 0) -> AsyncIterator[None]:
        """A call of so many bytes: begins when it is its agency's turn, and is at work until the end of the block."""
        line = self._lines.setdefault(agency, _Line())
        self._check_room(agency, line, size)
        line.calls += 1
        line.bytes += size
        began = False
        try:
            await self._wait(agency, line, line.waiting)
            began = True
            yield
        finally:
            line.calls -= 1
            line.bytes -= size
            line.at_work -= began
            self._look_at(agency)

    async def again(self, agency: str) -> None:
        """Wait for another turn of the agency, before its other calls: for one that is urgent, or has more to do."""
        line = self._lines.setdefault(agency, _Line())
        try:
            await self._wait(agency, line, line.urgent)
        finally:
            self._look_at(agency)

    def _check_room(self, agency: str, line: _Line, size: int) -> None:
        if line.calls >= self._calls_most:
            raise RateLimited(
                f"agency {agency!r} has {line.calls} calls in progress, and AGENCY_CALLS_MOST is {self._calls_most}; "
                "try again in a moment"
            )
        if line.calls and line.bytes + size > self._bytes_most:
            raise RateLimited(
                f"the calls of agency {agency!r} in progress would have {line.bytes + size} bytes, and "
                f"AGENCY_CALLS_BYTES is {self._bytes_most}; try again in a moment"
            )

    async def _wait(self, agency: str, line: _Line, where: _Waiting) -> None:
        turn = asyncio.get_running_loop().create_future()
        where.append(turn)
        self._look_at(agency)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):
                    where.remove(turn)
            elif where is line.waiting:
                line.at_work -= 1  # it was let go in the same moment, and will not be at work
            raise

    def _look_at(self, agency: str) -> None:
        """Something has changed for an agency: it can go, or has left nothing to remember."""
        line = self._lines.get(agency)
        if line is None:
            return
        if line.can_go:
            self._order.setdefault(agency)
            if not self._turning:
                self._turning = True
                self._turn()
        elif not line.calls:
            del self._lines[agency]

    def _turn(self) -> None:
        """Let one call go, and look again when it has had its turn: what this schedules runs after what that call
        does, and whatever else is ready runs in between."""
        while self._order:
            agency, _ = self._order.popitem(last=False)
            line = self._lines.get(agency)
            if line is None or not line.can_go:
                continue
            line.let_go()
            if line.can_go:
                self._order[agency] = None
            asyncio.get_running_loop().call_soon(self._turn)
            return
        self._turning = False


def _drop_gone(waiting: _Waiting) -> None:
    """Forget the first ones whose callers have gone: a future is canceled some steps before its caller hears of it."""
    while waiting and waiting[0].done():
        waiting.popleft()
