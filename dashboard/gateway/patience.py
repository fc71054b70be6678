"""A time limit for one wait after the other.

`asyncio.timeout` makes a timer for each wait and cancels it, which costs more than most of what is waited for. Here one
timer serves all: when it fires, it looks how long the wait that goes on by then may still take.
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class Patience:
    """Ends what is awaited inside of it by a `TimeoutError` after so many seconds, again and again. For one task at a
    time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[object] | None = None
        self._canceled_before = 0
        self._until = 0.0
        self._is_over = False

    def __enter__(self) -> None:
        self._waiting = asyncio.current_task()
        assert self._waiting is not None
        self._canceled_before = self._waiting.cancelling()
        self._until = self._loop.time() + self._seconds
        if self._timer is None:
            self._timer = self._loop.call_at(self._until, self._look)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        waiting, self._waiting = self._waiting, None
        if self._is_over:
            self._is_over = False
            assert waiting is not None
            if waiting.uncancel() <= self._canceled_before and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        if self._waiting is None:
            return  # the next wait makes another timer
        if self._loop.time() < self._until:
            self._timer = self._loop.call_at(self._until, self._look)
        else:
            self._is_over = True
            self._waiting.cancel()
