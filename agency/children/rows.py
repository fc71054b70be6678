"""The rows of a thread's children, and of the calls that wait for those in the background.

Functions that take a `Draft` stage; those that take a `ThreadStore` read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from agency.spending import NOTHING_SPENT, Spent
from agency.store.draft import Draft
from agency.store.store import ThreadStore
from agency.store.timers import Timer, drop_timer, drop_timers


@dataclass(frozen=True, slots=True)
class Child:
    token: str
    thread: str
    agent_type: str
    run: int
    effect: int
    call: str
    status: str
    report: str | None
    created_at: int
    completed_at: int | None
    spent: bytes | None = None
    background: int = 0

    @property
    def timer(self) -> Timer:
        return Timer("child", key=self.token)


def add_child(draft: Draft, child: Child) -> None:
    draft.execute(
        "INSERT OR IGNORE INTO children VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            child.token,
            child.thread,
            child.agent_type,
            child.run,
            child.effect,
            child.call,
            child.status,
            child.report,
            child.created_at,
            child.completed_at,
            child.spent,
            child.background,
        ),
    )


def end_child(draft: Draft, token: str, status: str, report: str | None, at: int) -> None:
    draft.ends_children = True
    draft.execute(
        "UPDATE children SET status = ?, report = ?, completed_at = ? WHERE token = ?", (status, report, at, token)
    )


def child_spent(draft: Draft, token: str, spent: Spent) -> None:
    """Keep what a child has used, as it has reported it."""
    draft.execute("UPDATE children SET spent = ? WHERE token = ?", (spent.model_dump_json().encode(), token))


def spent_by_children(store: ThreadStore) -> dict[int, Spent]:
    """What the children of each run have used, as far as they have reported."""
    sums: dict[int, Spent] = {}
    for run, spent in store.query("SELECT run, spent FROM children WHERE spent IS NOT NULL"):
        assert isinstance(run, int) and isinstance(spent, bytes)
        sums[run] = sums.get(run, NOTHING_SPENT) + Spent.model_validate_json(spent)
    return sums


def spent_by_child(store: ThreadStore, run: int) -> list[tuple[str, Spent]]:
    """What each child of a run has used, by its token, as far as they have reported."""
    rows = store.query("SELECT token, spent FROM children WHERE run = ? AND spent IS NOT NULL", (run,))
    return [(str(token), Spent.model_validate_json(spent)) for token, spent in rows if isinstance(spent, bytes)]


def children(store: ThreadStore | Draft, token: str | None = None, status: str | None = None) -> list[Child]:
    wanted = {"token": token, "status": status}
    given = {column: value for column, value in wanted.items() if value is not None}
    where = f" WHERE {' AND '.join(f'{column} = ?' for column in given)}" if given else ""
    rows = store.query(f"SELECT * FROM children{where} ORDER BY seq", tuple(given.values()))
    return [Child(*row[1:]) for row in rows]  # type: ignore[arg-type]  # STRICT columns have these types


@dataclass(frozen=True, slots=True)
class Wait:
    """A call that waits until all of these have ended."""

    run: int
    effect: int
    call: str
    tokens: tuple[str, ...]

    @property
    def timer(self) -> Timer:
        return Timer("wait", self.run, self.effect, self.call)


def add_wait(draft: Draft, wait: Wait) -> None:
    draft.ends_children = True
    draft.execute("REPLACE INTO waits VALUES (?, ?, ?, ?)", (wait.run, wait.effect, wait.call, json.dumps(wait.tokens)))


def drop_wait(draft: Draft, wait: Wait) -> None:
    draft.execute("DELETE FROM waits WHERE run = ? AND effect = ? AND call = ?", (wait.run, wait.effect, wait.call))
    drop_timer(draft, wait.timer)


def drop_waits(draft: Draft) -> None:
    draft.execute("DELETE FROM waits")
    drop_timers(draft, "wait")


def waits(store: ThreadStore | Draft) -> list[Wait]:
    rows = store.query("SELECT run, effect, call, tokens FROM waits")
    return [
        Wait(int(str(run)), int(str(effect)), str(call), tuple(json.loads(str(t)))) for run, effect, call, t in rows
    ]
