"""Until when a person may decide on the calls of a batch, and what counts as the decision when that time is over.

One timer stands for the whole batch: it is due when the first of its calls is. It is set and dropped in the commit in
which what waits changes, so a crash between the two is impossible.
"""

from __future__ import annotations

from agency.store.draft import Draft
from agency.store.timers import Timer, drop_timer, set_timer
from agency.turn.outcomes import Approve, Decision, Deny
from agency.turn.state import State, WaitingTools


class ApprovalDeadline:
    """The timer of a thread's pending approvals."""

    def __init__(self) -> None:
        self._timer: Timer | None = None  # what may be set in the file

    def found(self, timer: Timer) -> None:
        """The file that was opened may hold this timer."""
        self._timer = timer

    def keep(self, draft: Draft, run: int, waits_for: State | None) -> None:
        """Stage the timer as it has to be. `waits_for` is what a person has to decide on; None if nothing is."""
        due = first_due(waits_for)
        if due is not None and isinstance(waits_for, WaitingTools):
            self._timer = Timer("approval", run, waits_for.effect)
            set_timer(draft, self._timer, due)
        elif self._timer is not None:
            drop_timer(draft, self._timer)
            self._timer = None


def first_due(state: State | None) -> int | None:
    """When the first decision of those that a batch waits for is due; None if they may take any time."""
    if not isinstance(state, WaitingTools):
        return None
    until = (state.asked(call.id).until for call in state.deferred("approval"))
    return min((each for each in until if each is not None), default=None)


def overdue(state: State, now: int) -> dict[str, Decision]:
    """The decisions that count, by call, because no person has decided in time."""
    decisions: dict[str, Decision] = {}
    if not isinstance(state, WaitingTools):
        return decisions
    for call in state.deferred("approval"):
        asked = state.asked(call.id)
        if asked.until is not None and asked.until <= now:
            runs = asked.on_timeout == "approve" and not asked.in_doubt  # what may have happened needs a person
            decisions[call.id] = Approve() if runs else Deny()
    return decisions
