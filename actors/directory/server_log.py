"""The latest lines that hosts and the directory have logged, for gateways to show. They are in memory only."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from actors.logs import line_of
from agency.api.bodies import ServerLog, ServerLogLine

MOST_LINES = 1_000


class ServerLogLines(logging.Handler):
    """It is a handler of the directory's own log, too."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: deque[ServerLogLine] = deque(maxlen=MOST_LINES)
        self._last = 0
        self._more = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def emit(self, record: logging.LogRecord) -> None:
        line = line_of(record, "directory")
        if self._loop is None:
            self.add([line])
        else:
            self._loop.call_soon_threadsafe(self.add, [line])

    def add(self, lines: Iterable[ServerLogLine]) -> None:
        for line in lines:
            self._last += 1
            self._lines.append(line.model_copy(update={"n": self._last}))
        self._more.set()
        self._more = asyncio.Event()

    async def after(self, n: int, wait: float) -> ServerLog:
        """The lines after one, as soon as there are any, or after so many seconds. A number that this directory has not
        reached is of another one, which has died."""
        self._loop = asyncio.get_running_loop()
        if wait and n == self._last:
            more = self._more
            with suppress(TimeoutError):
                await asyncio.wait_for(more.wait(), wait)
        begin = 0 if n > self._last else n
        return ServerLog(lines=tuple(line for line in self._lines if line.n > begin), next=self._last)
