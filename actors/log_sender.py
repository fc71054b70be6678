"""Brings what a host logs to the directory, where gateways read it: what other people's code prints and logs, and
whatever is worth a warning. All of it is in the host's own log, too, so lines that cannot be sent are dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from actors.logs import line_of
from agency.api.bodies import ServerLogLine
from agency.captured import OUTPUT, current

MOST_LINES = 500
"""So many wait to be sent; the oldest are dropped first."""
TOGETHER_SECONDS = 0.05
"""Lines that come in quick succession are sent together."""


class LogSender(logging.Handler):
    def __init__(self, host: str, send: Callable[[list[ServerLogLine]], Awaitable[None]]) -> None:
        super().__init__()
        self._host = host
        self._send = send
        self._waiting: deque[ServerLogLine] = deque(maxlen=MOST_LINES)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """From now on, send; what was logged before goes first."""
        self._loop = asyncio.get_running_loop()
        self._wake()

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < logging.WARNING and record.name != OUTPUT and current() is None:
            return
        self._waiting.append(line_of(record, self._host))
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)  # tools log from their worker threads

    def _wake(self) -> None:
        if self._waiting and (self._task is None or self._task.done()) and self._loop is not None:
            self._task = self._loop.create_task(self._send_all())

    async def _send_all(self) -> None:
        while self._waiting:
            await asyncio.sleep(TOGETHER_SECONDS)
            lines = [self._waiting.popleft() for _ in range(len(self._waiting))]
            try:
                await self._send(lines)
            except Exception:  # the directory is being started again, and the host's own log has the lines
                continue
