"""The rows behind a run: what is stored of it, of its calls, its children, its timers and its mail.

Functions that take a `Draft` stage; those that take a `ThreadStore` read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import TypeAdapter

from agency.children.parcels import PARCEL, AnyParcel
from agency.messages import Message
from agency.spending import NOTHING_SPENT, Spent
from agency.store.draft import Draft, Posted, Value, When
from agency.store.store import ThreadStore
from agency.turn.outcomes import CallOutcome, Canceled, Deferred, Failure, Success

_WHEN: TypeAdapter[When] = TypeAdapter(When)
OUTCOME: TypeAdapter[Success | Failure | Canceled | Deferred] = TypeAdapter(CallOutcome)


# Runs


@dataclass(frozen=True, slots=True)
class StoredRun:
    n: int
    status: str
    machine: bytes
    output: bytes | None
    """The schema that its result must fit."""


def add_run(draft: Draft, n: int, status: str, machine: bytes, started_at: int, output: bytes | None) -> None:
    draft.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?)", (n, status, machine, started_at, output))


def save_run(draft: Draft, n: int, status: str, machine: bytes) -> None:
    draft.execute("UPDATE runs SET status = ?, machine = ? WHERE n = ?", (status, machine, n))


def save_surface(draft: Draft, surface: bytes) -> None:
    """Keep the prompt and tools of the outstanding model call; only the latest matters."""
    draft.execute("REPLACE INTO surface VALUES (1, ?)", (surface,))


def surface(store: ThreadStore) -> bytes | None:
    rows = store.query("SELECT body FROM surface")
    return rows[0][0] if rows else None  # type: ignore[return-value]  # a blob


def last_run(store: ThreadStore) -> StoredRun | None:
    rows = store.query("SELECT n, status, machine, output FROM runs ORDER BY n DESC LIMIT 1")
    return StoredRun(*rows[0]) if rows else None  # type: ignore[arg-type]  # STRICT columns have these types


_RUN_START = "run_start"


def keep_start(draft: Draft, n: int) -> None:
    """The middleware know that a run has begun; only the latest matters."""
    draft.put(_RUN_START, "latest", n)


def is_start_told(store: ThreadStore, n: int) -> bool:
    return bool(store.query("SELECT 1 FROM kv WHERE owner = ? AND value = ?", (_RUN_START, str(n))))


_RUN_END = "run_end"


def keep_end(draft: Draft, n: int) -> None:
    """That a run has ended is still to be told to the middleware."""
    draft.put(_RUN_END, str(n), True)


def forget_end(draft: Draft, n: int) -> None:
    draft.put(_RUN_END, str(n), None)


def untold_ends(store: ThreadStore, n: int | None = None) -> list[StoredRun]:
    """The runs whose end is still to be told; with `n`, only that one."""
    rows = store.query(
        "SELECT n, status, machine, output FROM runs WHERE coalesce(?, n) = n AND EXISTS "
        "(SELECT 1 FROM kv WHERE owner = ? AND key = CAST(n AS TEXT)) ORDER BY n",
        (n, _RUN_END),
    )
    return [StoredRun(*row) for row in rows]  # type: ignore[arg-type]  # STRICT columns have these types


# Calls: the intent is recorded before a call runs, the outcome as it ends. Once the machine has them, the rows go.


def begin_calls(draft: Draft, effect: int, calls: Iterable[str], at: int) -> None:
    for call in calls:
        draft.execute("INSERT OR IGNORE INTO effects VALUES (?, ?, ?, NULL, ?)", (draft.run, effect, call, at))


def end_call(draft: Draft, effect: int, call: str, outcome: CallOutcome) -> None:
    stored = OUTCOME.dump_json(outcome)
    draft.execute("REPLACE INTO effects VALUES (?, ?, ?, ?, NULL)", (draft.run, effect, call, stored))


def forget_calls(draft: Draft, effect: int) -> None:
    draft.execute("DELETE FROM effects WHERE run = ? AND effect <= ?", (draft.run, effect))


def forget_all_calls(draft: Draft) -> None:
    draft.execute("DELETE FROM effects")


@dataclass(frozen=True, slots=True)
class Began:
    """A call that has begun and not ended; since when is not known of calls in old files."""

    at: int | None


def calls(store: ThreadStore, run: int, effect: int) -> dict[str, CallOutcome | Began]:
    """The calls of an effect that have begun, with their outcomes."""
    rows = store.query("SELECT call, outcome, began_at FROM effects WHERE run = ? AND effect = ?", (run, effect))
    return {
        str(call): OUTCOME.validate_json(stored)
        if isinstance(stored, bytes)
        else Began(at if isinstance(at, int) else None)
        for call, stored, at in rows
    }


# Inbox: messages that were accepted and wait for the run's next checkpoint, or for the next run.


def take_inbox(store: ThreadStore, draft: Draft, *, next_run: bool = False) -> tuple[Posted, ...]:
    """What waits in the inbox, and what the draft would put there; taking it out is staged. What was sent for the next
    run is left there, unless that one is to begin."""
    waiting = store.inbox_count and draft.taken is None
    later = "" if next_run else " WHERE timing <> 'next_run'"
    rows = store.query(f"SELECT seq, body, timing, terms FROM inbox{later} ORDER BY seq") if waiting else []
    if rows:
        draft.taken = len(rows)
        draft.execute(f"DELETE FROM inbox{later}")
    taken = [post for post in draft.posted if next_run or post.when != "next_run"]
    draft.posted = [post for post in draft.posted if post not in taken]
    return (*(_posted(*row[1:]) for row in rows), *taken)


def _posted(body: Value, when: Value, terms: Value) -> Posted:
    message = Message.model_validate_json(str(body))
    return Posted(message, _WHEN.validate_python(when), None if terms is None else str(terms))


def is_interrupted(store: ThreadStore) -> bool:
    """Whether a message waits that is to interrupt what is being done."""
    return bool(store.inbox_count and store.query("SELECT 1 FROM inbox WHERE timing = 'now'"))


# Requests that must not be accepted twice


def remember_request(draft: Draft, key: str, status: str, run: int | None = None) -> None:
    draft.execute("INSERT INTO requests VALUES (?, ?, ?)", (key, draft.run if run is None else run, status))


def request(store: ThreadStore, key: str) -> tuple[int, str] | None:
    """The run that a request with this idempotency key started or joined, and its status then."""
    rows = store.query("SELECT run, status FROM requests WHERE key = ?", (key,))
    return (int(str(rows[0][0])), str(rows[0][1])) if rows else None


# What the runs that have ended have used, together.


def save_spent(draft: Draft, spent: Spent) -> None:
    draft.execute("REPLACE INTO meta VALUES ('spent', ?)", (spent.model_dump_json(),))


def spent(store: ThreadStore) -> Spent:
    stored = store.meta("spent")
    return NOTHING_SPENT if stored is None else Spent.model_validate_json(str(stored))


# Children


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


def children(store: ThreadStore | Draft, token: str | None = None, status: str | None = None) -> list[Child]:
    wanted = {"token": token, "status": status}
    given = {column: value for column, value in wanted.items() if value is not None}
    where = f" WHERE {' AND '.join(f'{column} = ?' for column in given)}" if given else ""
    rows = store.query(f"SELECT * FROM children{where} ORDER BY seq", tuple(given.values()))
    return [Child(*row[1:]) for row in rows]  # type: ignore[arg-type]  # STRICT columns have these types


# Who waits for children in the background


@dataclass(frozen=True, slots=True)
class Wait:
    """A call that waits until all of these have ended."""

    run: int
    effect: int
    call: str
    tokens: tuple[str, ...]

    @property
    def timer(self) -> str:
        return f"wait:{self.run}.{self.effect}.{self.call}"


def add_wait(draft: Draft, wait: Wait) -> None:
    draft.ends_children = True
    draft.execute("REPLACE INTO waits VALUES (?, ?, ?, ?)", (wait.run, wait.effect, wait.call, json.dumps(wait.tokens)))


def drop_wait(draft: Draft, wait: Wait) -> None:
    draft.execute("DELETE FROM waits WHERE run = ? AND effect = ? AND call = ?", (wait.run, wait.effect, wait.call))
    drop_timer(draft, wait.timer)


def drop_waits(draft: Draft) -> None:
    draft.execute("DELETE FROM waits")
    draft.execute("DELETE FROM timers WHERE name LIKE 'wait:%'")


def waits(store: ThreadStore | Draft) -> list[Wait]:
    rows = store.query("SELECT run, effect, call, tokens FROM waits")
    return [
        Wait(int(str(run)), int(str(effect)), str(call), tuple(json.loads(str(t)))) for run, effect, call, t in rows
    ]


# Timers


def sleep_timer(run: int, effect: int) -> str:
    return f"sleep:{run}.{effect}"


def child_timer(token: str) -> str:
    return f"child:{token}"


def approval_timer(run: int, effect: int) -> str:
    return f"approval:{run}.{effect}"


def drop_run_timers(draft: Draft) -> None:
    """Those that mean nothing once the run has ended."""
    draft.execute("DELETE FROM timers WHERE name LIKE 'sleep:%' OR name LIKE 'approval:%'")


def set_timer(draft: Draft, name: str, due: int) -> None:
    draft.execute("REPLACE INTO timers VALUES (?, ?)", (name, due))
    draft.sets_timer = True


def drop_timer(draft: Draft, name: str) -> None:
    draft.execute("DELETE FROM timers WHERE name = ?", (name,))


def timers(store: ThreadStore) -> list[tuple[str, int]]:
    """Name and due time of each, the next one first."""
    return [(str(name), int(str(due))) for name, due in store.query("SELECT name, due FROM timers ORDER BY due, name")]


# Outbox


def send(draft: Draft, parcel: AnyParcel) -> None:
    draft.execute("INSERT INTO outbox (parcel) VALUES (?)", (PARCEL.dump_json(parcel),))
    draft.sends = True


def acknowledge(draft: Draft, seq: int) -> None:
    draft.execute("DELETE FROM outbox WHERE seq = ?", (seq,))


def parcels(store: ThreadStore) -> list[tuple[int, AnyParcel]]:
    """What waits in the outbox, oldest first."""
    rows = store.query("SELECT seq, parcel FROM outbox ORDER BY seq")
    return [(int(str(seq)), PARCEL.validate_json(parcel)) for seq, parcel in rows if isinstance(parcel, bytes)]
