"""The run that a thread is at: its number, its machine, and what others may ask about it.

Every part of the thread reads it, and only the driver changes it: `enter` when a run begins or is taken up, and the
machine inside `Driver.advance`. Before the first run there is no machine, and every question has the answer of a run
that is over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from agency.clock import now_ms
from agency.spending import NOTHING_SPENT, Spent
from agency.store.draft import Draft
from agency.store.store import ThreadStore, run_id
from agency.store.timers import next_due
from agency.thread.views import RunState, RunStatus, run_state, status_of
from agency.turn.effects import Input, PendingCall
from agency.turn.machine import TurnMachine
from agency.turn.state import PauseReason, State, WaitingTools


class Advance(Protocol):
    """`Driver.advance`: feed the machine these answers, and commit the draft with all that follows."""

    def __call__(self, draft: Draft, answers: Iterable[Input] = (), /) -> None: ...


class CurrentRun:
    def __init__(self, store: ThreadStore) -> None:
        self._store = store
        self._machine: TurnMachine | None = None
        self.n = 0
        """Which run of the thread it is; 0 before the first."""

    def enter(self, n: int, machine: TurnMachine) -> None:
        """From now on, this is the run."""
        self.n, self._machine = n, machine

    def draft(self) -> Draft:
        """A new draft for what comes of this run."""
        return self._store.draft(self.n)

    @property
    def id(self) -> str:
        return run_id(self._store.thread_id, self.n) if self.n else ""

    @property
    def machine(self) -> TurnMachine:
        assert self._machine is not None, "the thread has not run yet"
        return self._machine

    def view(self) -> RunState:
        """As callers see it."""
        alarm = next_due(self._store)
        return RunState(next_alarm_at=alarm) if self._machine is None else run_state(self.id, self._machine, alarm)

    @property
    def status(self) -> RunStatus:
        return "registered" if self._machine is None else status_of(self._machine)

    @property
    def pause_reason(self) -> PauseReason | None:
        """What it waits for, if it is paused."""
        return None if self._machine is None else self._machine.pause_reason

    @property
    def state(self) -> State | None:
        return None if self._machine is None else self._machine.state

    @property
    def waiting_tools(self) -> WaitingTools | None:
        """The batch that it waits for, if it does."""
        state = self.state
        return state if isinstance(state, WaitingTools) else None

    @property
    def active(self) -> bool:
        """Whether it has begun and not ended; it may be paused."""
        return self._machine is not None and self._machine.outcome is None

    @property
    def goes_on(self) -> bool:
        """Whether it will go on without a person: it is at work, or waits for its children or the outside."""
        return self.active and self.pause_reason in (None, "subagent", "outside")

    @property
    def at_work(self) -> bool:
        """Whether it is doing something that is lost with its process."""
        return self._machine is not None and self._machine.at_work

    @property
    def pause_requested(self) -> bool:
        """Whether a person wants nothing new to begin."""
        return self._machine is not None and self._machine.pause_requested

    @property
    def exhausted_by(self) -> str | None:
        """The code of the limit that it waits to have lifted."""
        return None if self._machine is None else self._machine.exhausted_by

    @property
    def interruptible(self) -> bool:
        """Whether it does something that can be interrupted; one that has used up a limit does not."""
        return self._machine is not None and self._machine.exhausted_by is None

    def awaits(self, run: int, effect: int) -> bool:
        """Whether this effect still waits for its answer; its run may have ended meanwhile, and another begun."""
        return run == self.n and self._machine is not None and self._machine.outstanding == effect

    def awaits_call(self, run: int, effect: int, call_id: str) -> PendingCall | None:
        """The call, if it still waits for its children or for the outside."""
        state = self.waiting_tools if run == self.n else None
        if state is None or state.effect != effect:
            return None
        return next((call for call in state.deferred("child", "outside") if call.id == call_id), None)

    def seconds_left(self) -> float | None:
        """How much of its time limit is left."""
        remaining = self.machine.remaining_ms(now_ms())
        return None if remaining is None else remaining / 1000

    def spent(self) -> Spent:
        """What it has used so far; nothing, once it has ended."""
        return self.machine.spent(now_ms()) if self.active else NOTHING_SPENT
