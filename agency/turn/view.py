"""A run as its checkpoint tells it. Read only: `TurnMachine` is a view that can also be driven."""

from __future__ import annotations

from dataclasses import replace

from agency.messages import Usage
from agency.spending import Spent
from agency.turn.effects import CanceledBy
from agency.turn.limits import active_ms, exhausted_by, remaining_ms
from agency.turn.outcomes import TurnOutcome
from agency.turn.recovering import is_at_work
from agency.turn.state import Attempt, Ended, Exhausted, Limits, PauseReason, State, TurnCheckpoint


class TurnView:
    def __init__(self, checkpoint: TurnCheckpoint) -> None:
        self._m = checkpoint

    @property
    def state(self) -> State:
        return self._m.state

    @property
    def turn(self) -> int:
        return self._m.turn

    @property
    def model(self) -> str | None:
        """The model that was asked last."""
        return self._m.model

    @property
    def failures(self) -> tuple[Attempt, ...]:
        return tuple(self._m.failures)

    @property
    def said(self) -> str:
        """What the model has said so far of a reply that was cut off."""
        return self._m.said

    @property
    def pause_reason(self) -> PauseReason | None:
        return self._m.pause_reason

    @property
    def pause_requested(self) -> bool:
        """Whether a person wants the run to pause; work that had begun may not have ended yet."""
        return self._m.pause_requested

    @property
    def at_work(self) -> bool:
        """Whether it is doing something that is lost with its process."""
        return is_at_work(self._m)

    @property
    def recoveries(self) -> int:
        return self._m.recoveries

    @property
    def outcome(self) -> TurnOutcome | None:
        state = self._m.state
        return state.outcome if isinstance(state, Ended) else None

    @property
    def compacted(self) -> bool:
        """Whether a request has left messages out, because the conversation is too long."""
        return self._m.compacted

    @property
    def canceled_by(self) -> CanceledBy | None:
        return self._m.canceled_by

    @property
    def grace(self) -> bool:
        """Whether this is the turn after the last one: its reply ends the run."""
        return self._m.grace

    @property
    def outstanding(self) -> int | None:
        """The id of the effect that waits for an answer."""
        return getattr(self._m.state, "effect", None)

    @property
    def exhausted_by(self) -> str | None:
        """The code of the limit that the run waits to have lifted."""
        state = self._m.state
        return state.code if isinstance(state, Exhausted) else None

    def used_up(self, at: int) -> str | None:
        """The code of the limit that the run has reached by now, if it has; the next turn pauses it."""
        return exhausted_by(replace(self._m, now=max(at, self._m.now)))

    def spent(self, at: int) -> Spent:
        """What the run has used, without its children."""
        turns = self._m.turns_begun or self._m.turn
        active = active_ms(self._m, at)
        return Spent(usage=self._m.usage, cost_usd=self._m.cost_usd, turns=turns, active_ms=active)

    @property
    def now(self) -> int:
        """When it was last given an input."""
        return self._m.now

    @property
    def usage(self) -> Usage:
        """The tokens of its model calls."""
        return self._m.usage

    @property
    def limits(self) -> Limits:
        return self._m.limits

    def remaining_ms(self, at: int) -> int | None:
        """How much of the time limit is left; None without a limit."""
        return remaining_ms(self._m, at)
