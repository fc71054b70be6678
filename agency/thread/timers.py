"""A thread's timers: when they are due, and what happens then.

The timers are in the file, set and dropped in the commits of what they belong to. What is here only knows when to look
at them, and may forget that: opening the file finds them again. A timer that is due is taken out of the file in the
commit of what it leads to, even if by then it leads to nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from agency.approvals.deadlines import overdue
from agency.children.family import Family
from agency.clock import now_ms
from agency.errors import AgencyError
from agency.store.draft import Draft
from agency.store.store import ThreadStore
from agency.store.timers import Timer, drop_timer, next_due, timers
from agency.thread.current_run import Advance, CurrentRun
from agency.turn.effects import CallsDecided, Woke

log = logging.getLogger(__name__)


class Timers:
    def __init__(
        self,
        store: ThreadStore,
        run: CurrentRun,
        family: Family,
        commit: Callable[[Draft], None],
        advance: Advance,
    ) -> None:
        self._store = store
        self._run = run
        self._family = family
        self._commit = commit
        self._advance = advance
        self._handle: asyncio.TimerHandle | None = None
        self._stopped = False

    def schedule(self) -> None:
        """Look at the timers when the next one is due."""
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
                self.due(timer)
        except AgencyError as error:
            log.warning("the timers of thread %s stop: %s", self._store.thread_id, error)
            return
        self.schedule()

    def due(self, timer: Timer) -> None:
        draft = self._run.draft()
        drop_timer(draft, timer)
        awaited = self._run.awaits(timer.run, timer.effect)
        match timer.kind:
            case "sleep" if awaited:
                self._advance(draft, [Woke(id=timer.effect, at=now_ms())])
            case "approval" if awaited:
                self._decide_overdue(draft, timer.effect)
            case "child" if self._family.timed_out(draft, timer.key):
                pass
            case "wait" if self._family.waited(timer):
                pass
            case _:
                self._commit(draft)

    def _decide_overdue(self, draft: Draft, effect: int) -> None:
        """Decide on the calls on which no person has decided in time."""
        now = now_ms()
        decisions = overdue(self._run.machine.state, now)
        self._advance(draft, [CallsDecided(id=effect, at=now, decisions=decisions, by="timeout")] if decisions else ())
