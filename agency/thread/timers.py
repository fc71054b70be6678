"""A thread's timers: when they are due, and what happens then.

The timers are in the file, set and dropped in the commits of what they belong to. What is here only knows when to look
at them, and may forget that: opening the file finds them again. A timer that is due is taken out of the file in the
commit of what it leads to, even if by then it leads to nothing. A timer of middleware leads to a hook, which takes
time: it stays in the file until what the hook has staged is committed with its removal.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable

from agency.approvals.deadlines import overdue
from agency.children.family import Family
from agency.clock import now_ms
from agency.define.hook_timers import owner_and_name
from agency.errors import AgencyError, HookFailed
from agency.store.draft import Draft
from agency.store.store import ThreadStore
from agency.store.timers import Timer, drop_timer, next_due, timers
from agency.thread.current_run import Advance, CurrentRun
from agency.thread.outside import Outside
from agency.thread.pipeline import Pipeline
from agency.turn.effects import CallsDecided, Woke

log = logging.getLogger(__name__)


class Timers:
    def __init__(
        self,
        store: ThreadStore,
        run: CurrentRun,
        family: Family,
        outside: Outside,
        commit: Callable[[Draft], None],
        advance: Advance,
        pipeline: Pipeline,
        take: Callable[[Draft], None],
    ) -> None:
        """`take` commits what a hook has staged; a message in it may start a run."""
        self._store = store
        self._run = run
        self._family = family
        self._outside = outside
        self._commit = commit
        self._advance = advance
        self._pipeline = pipeline
        self._take = take
        self._firing: dict[Timer, asyncio.Task[None]] = {}
        """Those whose hooks are at work."""
        self._handle: asyncio.TimerHandle | None = None
        self._stopped = False

    def schedule(self) -> None:
        """Look at the timers when the next one is due."""
        if self._handle is not None:
            self._handle.cancel()
        due = None if self._stopped else self._next_due()
        if due is not None:
            wait = max(0, due - now_ms()) / 1000
            self._handle = asyncio.get_running_loop().call_later(wait, self._look, due)

    def _next_due(self) -> int | None:
        if not self._firing:
            return next_due(self._store)
        return min((due for timer, due in timers(self._store) if timer not in self._firing), default=None)

    @property
    def busy(self) -> bool:
        """Whether the hook of a timer is at work."""
        return bool(self._firing)

    def stop(self) -> None:
        self._stopped = True
        if self._handle is not None:
            self._handle.cancel()
        for task in self._firing.values():
            task.cancel()

    def _look(self, expected: int) -> None:
        if (late := self._store.late) is not None and late.committing:
            late.when_quiet(functools.partial(self._look, expected))
            return
        now = max(expected, now_ms())  # the wall clock may have been set back meanwhile
        try:
            for timer, due in [each for each in timers(self._store) if each[1] <= now]:
                if timer.kind != "hook":
                    self.due(timer)
                elif timer not in self._firing:
                    self._firing[timer] = asyncio.create_task(self._fire(timer, due), name=f"timer {timer.name}")
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
            case "outside" if self._outside.timed_out(draft, timer.key):
                pass
            case _:
                self._commit(draft)

    async def _fire(self, timer: Timer, due: int) -> None:
        """Tell the middleware. A timer that the hook sets again stays, and so does one that was moved meanwhile."""
        draft, (owner, name) = self._run.draft(), owner_and_name(timer)
        drop_timer(draft, timer, due)
        mark = draft.mark()
        try:
            await self._pipeline.on_timer(draft, self._run.id if self._run.active else None, owner, name)
        except HookFailed as error:
            draft.undo(mark)
            log.warning("hook on_timer failed in thread %s: %s", self._store.thread_id, error)
        finally:
            del self._firing[timer]
        if self._stopped:
            return
        try:
            self._take(draft)
            self.schedule()
        except AgencyError as error:
            log.warning("the timers of thread %s stop: %s", self._store.thread_id, error)

    def _decide_overdue(self, draft: Draft, effect: int) -> None:
        """Decide on the calls on which no person has decided in time."""
        now = now_ms()
        decisions = overdue(self._run.machine.state, now)
        self._advance(draft, [CallsDecided(id=effect, at=now, decisions=decisions, by="timeout")] if decisions else ())
