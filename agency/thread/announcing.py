"""Telling others what a thread has done: where it runs, and its observers. Always after the commit, never before. What
is told is how things stood at the commit, also where that takes its time to be on disk.

What they make of it changes nothing here. It is on disk already, so an error of theirs is logged and left at that.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence

from agency.clock import now_ms
from agency.events import EventType, NewEvent
from agency.metadata import ThreadMetadata
from agency.observe.observers import Observers
from agency.runtime import Runtime, ThreadProgress
from agency.spending import Spent
from agency.store.draft import Draft
from agency.store.forking import OWN_EVENTS
from agency.store.run_so_far import run_so_far
from agency.store.store import ThreadStore
from agency.thread.current_run import CurrentRun

log = logging.getLogger(__name__)

SPENDING = frozenset(
    {
        EventType.MODEL_COMPLETED,
        EventType.MODEL_ASKED,
        EventType.SUBAGENT_COMPLETED,
        EventType.RUN_PAUSED,
        EventType.RUN_CANCELED,
        EventType.AGENT_COMPLETED,
        EventType.AGENT_ERROR,
    }
)
"""The events after which a thread has used more than before."""


class Announcer:
    def __init__(
        self,
        store: ThreadStore,
        thread: ThreadMetadata,
        run: CurrentRun,
        runtime: Runtime,
        observers: Observers,
        spent: Callable[[], tuple[Spent, Spent]],
    ) -> None:
        """`spent` is what the thread and its children have used so far."""
        self._store = store
        self._thread = thread
        self._run = run
        self._runtime = runtime
        self._observers = observers
        self._spent = spent
        self._last_spent: tuple[Spent, Spent] | None = None  # adding it up takes time, so it is done when it changes

    def about(self, draft: Draft) -> Callable[[], None]:
        """What tells of a draft that has just been committed."""
        if not draft.events:
            return _nothing
        progress = self._progress(draft.events)
        seq, at = self._store.last_seq, self._store.committed_at

        def tell() -> None:
            self._tell_runtime(progress)
            if self._observers:
                self._observers.tell(self._thread, draft.run, seq, at, draft.events)

        return tell

    def run_taken_up(self) -> None:
        """Let observers know how far a run in progress has got, before it goes on."""
        if self._observers.follow and (run := run_so_far(self._store)) is not None:
            self._observers.resumed(self._thread, run)

    def introduce_fork(self) -> None:
        """Tell of a fork that has done nothing yet: its first events came with its file, in no commit of ours."""
        origin = self._thread.forked_from
        if origin is None or self._store.last_seq > origin.seq + OWN_EVENTS:
            return
        (created,) = self._store.events(after=origin.seq, limit=1)
        told = [NewEvent(created.type, created.data)]
        self._tell_runtime(self._progress(told))
        if self._observers:
            self._observers.tell(self._thread, 0, origin.seq + 1, now_ms(), told)

    def spent_more(self) -> None:
        """The thread has used more, though no event says so: a child that it no longer waits for has reported."""
        self._last_spent = None
        self._store.when_durable(functools.partial(self._tell_runtime, self._progress(())))

    def _progress(self, happened: Sequence[NewEvent]) -> ThreadProgress | None:
        """How far the thread has got, as it stands now. None if that cannot be told."""
        run = self._run
        try:
            if self._last_spent is None or any(event.type in SPENDING for event in happened):
                self._last_spent = self._spent()
            return ThreadProgress(
                self._store.last_seq,
                run.id,
                run.status,
                run.pause_reason,
                happened,
                *self._last_spent,
                self._store.title,
            )
        except Exception:
            log.exception("the progress of thread %s is not known", self._thread.id)
            return None

    def _tell_runtime(self, progress: ThreadProgress | None) -> None:
        if progress is None:
            return
        try:
            self._runtime.committed(self._thread, progress)
        except Exception:
            log.exception("the runtime failed to take the progress of thread %s", self._thread.id)


def _nothing() -> None:
    """For a commit of which there is nothing to tell."""
