"""The threads that a thread has started: what they have used, what their ends mean here, and who waits for them.

A child that works in the background has no call that waits for it. When it ends, the conversation gets a note, unless a
call has been made that waits for it (`ToolContext.wait_for`): that call gets its result once all of them have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from pydantic import JsonValue
from pydantic_core import to_json

from agency import events
from agency.children import outbox, rows
from agency.children.parcels import Cancel, ChildStatus
from agency.children.reports import call_outcome
from agency.clock import now_ms
from agency.messages import Message
from agency.spending import NOTHING_SPENT, Spent
from agency.store.draft import Draft
from agency.store.store import ThreadStore
from agency.store.timers import Timer, drop_timer
from agency.turn.outcomes import Settled, Success

NOTE_ORIGIN = "task"
"""Of notes that a child has ended; one that comes while nothing is done here starts a run."""
TOO_LATE = "it did not end in time and was canceled"


class Settle(Protocol):
    """Give a call that waits for children, or for the outside, its result; commits the draft."""

    def __call__(self, draft: Draft, run: int, effect: int, call: str, outcome: Settled) -> None: ...


class Family:
    def __init__(self, store: ThreadStore, settle: Settle, take: Callable[[Draft], None]) -> None:
        """`take` commits what has come from outside; it may start a run."""
        self._store = store
        self._settle = settle
        self._take = take
        self._spent = rows.spent_by_children(store)

    # What they have used.

    def spent(self) -> Spent:
        """What all children have reported."""
        return sum(self._spent.values(), NOTHING_SPENT)

    def spent_in(self, run: int) -> Spent | None:
        """What the children of a run have reported, if anything."""
        return self._spent.get(run)

    def report_spent(self, draft: Draft, child: rows.Child, spent: Spent) -> None:
        """A child tells all that it has used: when it ends, and again if its own children tell more after that. What
        it has used only grows, so what was told before, or twice, changes nothing."""
        known = NOTHING_SPENT if child.spent is None else Spent.model_validate_json(child.spent)
        if child.spent is None or spent.exceeds(known):
            rows.child_spent(draft, child.token, spent)
            others = [each for each in rows.spent_by_child(self._store, child.run) if each[0] != child.token]
            self._spent[child.run] = sum((each for _, each in others), spent)

    # Their ends.

    def ended(self, draft: Draft, child: rows.Child, status: ChildStatus, report: str) -> None:
        """A child's run has ended, or its time has: that is the result of the call that started it, or a note."""
        rows.end_child(draft, child.token, status, report, now_ms())
        drop_timer(draft, child.timer)
        draft.emit(events.subagent_completed(child.thread, status, report))
        if not child.background:
            self._settle(draft, child.run, child.effect, child.call, call_outcome(status, report))
            return
        if not any(child.token in wait.tokens for wait in rows.waits(self._store)):
            draft.post(Message(role="user", content=_note(child, status, report), origin=NOTE_ORIGIN))
        self._take(draft)

    def timed_out(self, draft: Draft, token: str) -> bool:
        """A child has not ended in time: it is canceled. Whether there was one."""
        waiting = rows.children(self._store, token=token, status="waiting")
        if waiting:
            outbox.send(draft, Cancel(to=waiting[0].thread, why="limit"))
            self.ended(draft, waiting[0], "timed_out", TOO_LATE)
        return bool(waiting)

    def cancel_all(self, draft: Draft, *, but_background: bool = False) -> None:
        """Cancel the children that are at work, and theirs with them."""
        for child in rows.children(draft, status="waiting"):
            if not (child.background and but_background):
                cancel_child(draft, child)

    def cancel_those_of(self, draft: Draft, run: int, effect: int) -> None:
        """Cancel the children that calls of one batch wait for."""
        for child in rows.children(draft, status="waiting"):
            if (child.run, child.effect, child.background) == (run, effect, 0):
                cancel_child(draft, child)

    def agents_of(self, draft: Draft, run: int) -> list[str]:
        """The agents that a run has started as children, by name."""
        return [child.agent_type for child in rows.children(draft) if child.run == run]

    @property
    def at_work(self) -> bool:
        return bool(rows.children(self._store, status="waiting"))

    # Who waits for them.

    def leave(self, draft: Draft) -> dict[str, Settled]:
        """End all waiting for children; the results so far of the calls that waited."""
        left = rows.waits(self._store)
        rows.drop_waits(draft)
        return {wait.call: self._outcome(wait) for wait in left}

    def look(self, run: int) -> None:
        """Give the calls their results that have waited long enough."""
        for wait in rows.waits(self._store):
            if wait.run == run and not self._left(wait.tokens):
                self._end_wait(wait)

    def waited(self, timer: Timer) -> bool:
        """A call has waited as long as it wanted to; whether there is one."""
        found = [wait for wait in rows.waits(self._store) if wait.timer == timer]
        for wait in found:
            self._end_wait(wait)
        return bool(found)

    def _left(self, tokens: Collection[str]) -> bool:
        return any(child.token in tokens for child in rows.children(self._store, status="waiting"))

    def _end_wait(self, wait: rows.Wait) -> None:
        draft = self._store.draft(wait.run)
        rows.drop_wait(draft, wait)
        self._settle(draft, wait.run, wait.effect, wait.call, self._outcome(wait))

    def _outcome(self, wait: rows.Wait) -> Success:
        return Success(content=told([child for child in rows.children(self._store) if child.token in wait.tokens]))


def told(children: Sequence[rows.Child]) -> str:
    """What is known of children, for a model."""
    listed: list[dict[str, JsonValue]] = [
        {
            "task": child.thread,
            "agent": child.agent_type,
            "status": "running" if child.status == "waiting" else child.status,
            **({} if child.report is None else {"report": child.report}),
        }
        for child in children
    ]
    return to_json(listed).decode()


def _note(child: rows.Child, status: ChildStatus, report: str) -> str:
    return f"The background task {child.thread} ({child.agent_type}) has ended: {status}.\n\n{report}"


def cancel_child(draft: Draft, child: rows.Child) -> None:
    """Cancel a child: it is no longer waited for, whatever it still says."""
    rows.end_child(draft, child.token, "canceled", None, now_ms())
    drop_timer(draft, child.timer)
    outbox.send(draft, Cancel(to=child.thread))
    draft.emit(events.subagent_completed(child.thread, "canceled", ""))
