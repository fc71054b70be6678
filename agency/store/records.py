"""The rows behind a run: what is stored of it, of its calls, its inbox and the requests that it has accepted.

Functions that take a `Draft` stage; those that take a `ThreadStore` read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from agency.errors import Damaged
from agency.events import EventType
from agency.messages import Message
from agency.spending import NOTHING_SPENT, Spent
from agency.store.draft import WARNINGS, Draft, Posted, Value, When
from agency.store.store import EVENT_TYPES, ThreadStore
from agency.turn.outcomes import CallOutcome, Canceled, Deferred, Failure, Success
from agency.turn.state import TurnCheckpoint

_WHEN: TypeAdapter[When] = TypeAdapter(When)
_WARNED = "SELECT value FROM kv WHERE owner = ? AND key GLOB printf('%08d.*', ?) ORDER BY key"
OUTCOME: TypeAdapter[Success | Failure | Canceled | Deferred] = TypeAdapter(CallOutcome)


# Runs


@dataclass(frozen=True, slots=True)
class StoredRun:
    n: int
    status: str
    machine: bytes
    output: bytes | None
    """The schema that its result must fit."""
    options: bytes | None = None
    """What it has in the place of the blueprint's."""
    started_at: int = 0

    @property
    def checkpoint(self) -> TurnCheckpoint:
        """Its machine as it was stored."""
        try:
            return TurnCheckpoint.load(self.machine)
        except ValidationError as error:
            raise Damaged(f"the file is damaged: how run {self.n} stands in it cannot be read: {error}") from error


def add_run(draft: Draft, n: int, started_at: int, output: bytes | None, options: bytes | None) -> None:
    """A run begins; how it stands comes with the first `save_run`."""
    row = (n, "running", b"", started_at, output, options)
    draft.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?)", row)


class StoredWarning(NamedTuple):
    kind: str
    message: str
    at: int


def warnings(store: ThreadStore | Draft, n: int) -> list[StoredWarning]:
    """What a run has warned of, oldest first."""
    rows = store.query(_WARNED, (WARNINGS, n))
    return [StoredWarning(**json.loads(str(value))) for (value,) in rows]


REQUEST_CHARS = 300
_REQUEST = """
    SELECT substr(json_extract(body, '$.content'), 1, ?) FROM messages
    WHERE json_extract(body, '$.role') = 'user' AND json_extract(body, '$.origin') IS NULL ORDER BY seq DESC LIMIT 1
"""


def latest_request(store: ThreadStore) -> str:
    """How the latest message that a user wrote begins."""
    rows = store.query(_REQUEST, (REQUEST_CHARS + 1,))
    text = str(rows[0][0] or "") if rows else ""
    return text if len(text) <= REQUEST_CHARS else f"{text[: REQUEST_CHARS - 1]}…"


def save_run(draft: Draft, n: int, status: str, machine: bytes) -> None:
    draft.execute("UPDATE runs SET status = ?, machine = ? WHERE n = ?", (status, machine, n))


_LAST_EVENT = "(SELECT coalesce(max(seq), 0) FROM events)"
_KEEP_PIECE = f"INSERT OR IGNORE INTO surfaces VALUES (?, {_LAST_EVENT}, ?)"


def save_surface(draft: Draft, digest: str, pieces: Mapping[str, bytes]) -> None:
    """Keep what a model is asked with: its pieces by digest. One of them is the surface itself, now the latest."""
    for name, body in pieces.items():
        draft.execute(_KEEP_PIECE, (name, body))
    draft.execute("REPLACE INTO surface VALUES (1, ?)", (digest.encode(),))


def latest_surface(store: ThreadStore) -> bytes | None:
    """The digest of the latest surface; in a file of an older release, that surface itself."""
    rows = store.query("SELECT body FROM surface")
    return rows[0][0] if rows else None  # type: ignore[return-value]  # a blob


def surface_pieces(store: ThreadStore, digests: Iterable[str]) -> dict[str, bytes]:
    """Those of the pieces that are kept."""
    wanted = tuple(digests)
    marks = ",".join("?" * len(wanted))
    rows = store.query(f"SELECT digest, body FROM surfaces WHERE digest IN ({marks})", wanted)
    return dict(rows)  # type: ignore[arg-type]  # STRICT columns have these types


def last_run(store: ThreadStore) -> StoredRun | None:
    rows = store.query("SELECT n, status, machine, output, options, started_at FROM runs ORDER BY n DESC LIMIT 1")
    return StoredRun(*rows[0]) if rows else None  # type: ignore[arg-type]  # STRICT columns have these types


def run(store: ThreadStore, n: int) -> StoredRun | None:
    rows = store.query("SELECT n, status, machine, output, options, started_at FROM runs WHERE n = ?", (n,))
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
        "SELECT n, status, machine, output, options FROM runs WHERE coalesce(?, n) = n AND EXISTS "
        "(SELECT 1 FROM kv WHERE owner = ? AND key = CAST(n AS TEXT)) ORDER BY n",
        (n, _RUN_END),
    )
    return [StoredRun(*row) for row in rows]  # type: ignore[arg-type]  # STRICT columns have these types


def keep_retry(draft: Draft, n: int, of: int) -> None:
    """Run `n` tries again what run `of` failed at."""
    draft.put("retries", str(n), of)


def retry_of(store: ThreadStore | Draft, n: int) -> int | None:
    """The run that failed, if run `n` tries it again."""
    rows = store.query("SELECT value FROM kv WHERE owner = 'retries' AND key = ?", (str(n),))
    return int(str(rows[0][0])) if rows else None


_RETRIED = "SELECT count(*) FROM events WHERE run = ? AND type = ? AND instr(data, ?)"


def times_retried(store: ThreadStore, run: int, call: str) -> int:
    """How often it was told that a call of a run is tried again."""
    quoted = f'"callId":{json.dumps(call, ensure_ascii=False)}'
    rows = store.query(_RETRIED, (run, EVENT_TYPES.index(EventType.TOOL_RETRIED), quoted))
    return int(str(rows[0][0]))


# How the last activation ended.


def note_left(draft: Draft, epoch: int) -> None:
    """An activation stops in good order while its run is at work."""
    draft.execute("REPLACE INTO meta VALUES ('left', ?)", (epoch,))


def was_left(store: ThreadStore) -> bool:
    """Whether the activation before this one has stopped in good order; if not, it died."""
    return store.meta("left") == store.epoch - 1


def last_event_at(store: ThreadStore) -> int:
    rows = store.query("SELECT ts FROM events ORDER BY seq DESC LIMIT 1")
    return int(str(rows[0][0])) if rows else 0


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


# Asides: what models have replied to hooks and tools of a run. The rows go when it ends.


def keep_aside(draft: Draft, name: str, reply: bytes) -> None:
    draft.execute("INSERT INTO asides VALUES (?, ?, ?)", (draft.run, name, reply))


def aside(store: ThreadStore, run: int, name: str) -> bytes | None:
    rows = store.query("SELECT reply FROM asides WHERE run = ? AND name = ?", (run, name))
    return rows[0][0] if rows else None  # type: ignore[return-value]  # a blob


def forget_asides(draft: Draft) -> None:
    draft.execute("DELETE FROM asides")


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


@dataclass(frozen=True, slots=True)
class KnownRequest:
    """The run that a request started or joined, its status then, and a digest of what was asked for, which requests in
    old files do not have."""

    run: int
    status: str
    digest: str | None


def remember_request(draft: Draft, key: str, status: str, digest: str | None = None, run: int | None = None) -> None:
    row = (key, draft.run if run is None else run, status, digest)
    draft.execute("INSERT INTO requests VALUES (?, ?, ?, ?)", row)


def request(store: ThreadStore, key: str) -> KnownRequest | None:
    """The request with this idempotency key, if there was one."""
    rows = store.query("SELECT run, status, digest FROM requests WHERE key = ?", (key,))
    return KnownRequest(*rows[0]) if rows else None  # type: ignore[arg-type]  # STRICT columns have these types


# What the runs that have ended have used, together.


def save_spent(draft: Draft, spent: Spent) -> None:
    draft.execute("REPLACE INTO meta VALUES ('spent', ?)", (spent.model_dump_json(),))


def spent(store: ThreadStore) -> Spent:
    stored = store.meta("spent")
    return NOTHING_SPENT if stored is None else Spent.model_validate_json(str(stored))
