"""Observers: objects that are told, in the same process, of every event that any thread commits.

    system = AgentSystem(…).observe(MetricsObserver()).observe(TracingObserver())

They are called by the thread right after its commit, each event once and in order, and the thread waits meanwhile: an
observer must be quick, and awaits nothing. It cannot break anything: what it raises is logged, once a minute at most,
and the others get their events all the same. What an observer sees is what events hold.

An event happens in one process, and observers in other processes do not see it. But a run may begin in one and end
in another: after a crash, or because it left memory while it waited for a person. An observer that follows runs
(`Follower`) is therefore told, when a thread wakes up in the middle of one, what the run has done so far; that is read
from the file, once, before the run goes on.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import NamedTuple, NoReturn, Protocol, runtime_checkable

from agency.errors import DefinitionError
from agency.events import EventData, EventType, NewEvent
from agency.metadata import ThreadMetadata
from agency.store.run_so_far import RunSoFar
from agency.store.store import run_id

log = logging.getLogger(__name__)

QUIET_SECONDS = 60.0
"""How long nothing more is logged of an observer that has failed."""

ENDINGS = frozenset({EventType.AGENT_COMPLETED, EventType.AGENT_ERROR, EventType.RUN_CANCELED})
"""The events with which a run ends."""


class Observation(NamedTuple):
    """One event that was committed. All observers get the same object, so none may change what is in it."""

    thread: ThreadMetadata
    run: int
    """The number of the run that it belongs to; 0 is none."""
    seq: int
    at: int
    """When it was committed, in milliseconds since 1970."""
    type: EventType
    data: EventData

    @property
    def run_id(self) -> str:
        return run_id(self.thread.id, self.run) if self.run else ""


class Resumed(NamedTuple):
    """A run in progress, as it was when its thread woke up here. These events are past: they were observed when they
    happened, unless the process died just then."""

    thread: ThreadMetadata
    run: int
    began: int
    """In milliseconds since 1970."""
    turn: Sequence[Observation]
    """What its latest turn has done so far."""


class Observer(Protocol):
    """It may also have `flush()`, which hands on whatever it has gathered; it is called when a runtime is closed."""

    def observe(self, seen: Observation) -> None:
        """An event was committed. This must not block; what it raises is logged and changes nothing."""


@runtime_checkable
class Follower(Observer, Protocol):
    """An observer that follows runs from their beginning to their end."""

    def resumed(self, run: Resumed) -> None:
        """A thread is awake in the middle of a run; what it does next is observed."""

    def left(self, thread_id: str) -> None:
        """A thread is no longer awake here; if it has a run in progress, that goes on elsewhere, or later."""


@runtime_checkable
class Flushing(Protocol):
    def flush(self) -> None: ...


class Observers:
    """Those of one system, in the order in which they were added."""

    def __init__(self) -> None:
        self._all: list[_Guarded] = []
        self._followers: list[tuple[_Guarded, Follower]] = []

    def __bool__(self) -> bool:
        return bool(self._all)

    @property
    def follow(self) -> bool:
        """Whether any of them wants to know of runs that are taken up in the middle."""
        return bool(self._followers)

    def add(self, observer: Observer) -> None:
        for name in ("observe", "resumed", "left", "flush"):
            method = getattr(observer, name, None)
            if name == "observe" and not callable(method):
                raise DefinitionError(f"observe() takes an object with a method `observe`, not {observer!r}")
            if inspect.iscoroutinefunction(method):
                raise DefinitionError(
                    f"{type(observer).__name__}.{name} is async: an observer's methods are plain ones"
                )
        guarded = _Guarded(observer)
        self._all.append(guarded)
        if isinstance(observer, Follower):
            self._followers.append((guarded, observer))

    def tell(self, thread: ThreadMetadata, run: int, last: int, at: int, events: Sequence[NewEvent]) -> None:
        """These events were committed; the seq of the last of them is `last`."""
        seqs = range(last - len(events) + 1, last + 1)
        seen = [_observation(thread, run, seq, at, *event) for seq, event in zip(seqs, events, strict=True)]
        for guarded in self._all:
            observe = guarded.observer.observe
            for each in seen:
                try:
                    observe(each)
                except BaseException as error:
                    guarded.failed(error)

    def resumed(self, thread: ThreadMetadata, run: RunSoFar) -> None:
        """A thread is awake with a run in progress."""
        turn = tuple(_observation(thread, run.n, *event) for event in run.turn)
        for guarded, follower in self._followers:
            guarded.call(follower.resumed, Resumed(thread, run.n, run.started_at, turn))

    def left(self, thread_id: str) -> None:
        """A thread is no longer awake."""
        for guarded, follower in self._followers:
            guarded.call(follower.left, thread_id)

    def flush(self) -> None:
        """Have them hand on what they have gathered. That may take its time."""
        for guarded in self._all:
            if isinstance(guarded.observer, Flushing):
                guarded.call(guarded.observer.flush)


class _Guarded:
    """One observer, and how it does."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self._failures = 0
        self._quiet_until = 0.0

    def call(self, method: Callable[..., None], *args: object) -> None:
        try:
            method(*args)
        except BaseException as error:
            self.failed(error)

    def failed(self, error: BaseException) -> None:
        """Only Ctrl-C is not the observer's own doing, and that is for the event loop."""
        if isinstance(error, KeyboardInterrupt):
            _interrupt_later(error)
            return
        self._failures += 1
        if (now := time.monotonic()) >= self._quiet_until:
            self._quiet_until = now + QUIET_SECONDS
            name = type(self.observer).__name__
            log.error("the observer %s has failed, %d times by now", name, self._failures, exc_info=error)


def _observation(
    thread: ThreadMetadata, run: int, seq: int, at: int, event_type: EventType, data: EventData
) -> Observation:
    return Observation(thread, run, seq, at, event_type, MappingProxyType(data))


def _interrupt_later(interrupt: KeyboardInterrupt) -> None:
    """Raise it from the event loop: raised here, it would cut `Driver.advance` short and leave the machine ahead of
    its file."""

    def interrupt_now() -> NoReturn:
        raise interrupt

    asyncio.get_running_loop().call_soon(interrupt_now)
