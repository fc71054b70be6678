"""The clock of a thread's timers. The timers are in the file; this only knows when to look at them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from agency.clock import now_ms
from agency.errors import AgencyError
from agency.store.store import ThreadStore
from agency.store.timers import Timer, next_due, timers

log = logging.getLogger(__name__)


class TimerClock:
    """Calls `fire` for every timer that is due; `fire` takes the timer out of the file."""

    def __init__(self, store: ThreadStore, fire: Callable[[Timer], None]) -> None:
        self._store = store
        self._fire = fire
        self._handle: asyncio.TimerHandle | None = None
        self._stopped = False

    def set(self) -> None:
        """Look at the timers, now or when the next one is due."""
        if self._handle is not None:
            self._handle.cancel()
        due = None if self._stopped else next_due(self._store)
        if due is not None:
            wait = max(0, due - now_ms()) / 1000
            self._handle = asyncio.get_running_loop().call_later(wait, self._look, due)

    def stop(self) -> None:
        self._stopped = True
        if self._handle is not None:
            self._handle.cancel()

    def _look(self, expected: int) -> None:
        now = max(expected, now_ms())  # the wall clock may have been set back meanwhile
        try:
            for timer in [timer for timer, due in timers(self._store) if due <= now]:
                self._fire(timer)
        except AgencyError as error:
            log.warning("the timers of thread %s stop: %s", self._store.thread_id, error)
            return
        self.set()
