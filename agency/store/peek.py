"""Looking into a thread's file without waking the thread. Another process may have it open, or it may hold no thread.

A file without a WAL or journal is whole, and reading it as it is leaves no trace; if it turns out to have been written
meanwhile, it is read again. With one, SQLite must be able to write: it could not otherwise recover a WAL whose index is
missing.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from agency.errors import NewerStore, NotAThreadStore, StoreError
from agency.events import Event, EventType
from agency.spending import Spent
from agency.store import schema, sqlite
from agency.store.store import EVENT_TYPES, ORDER, event_of, title_in
from agency.turn.machine import TurnMachine
from agency.turn.state import PauseReason, RunStatus, TurnCheckpoint

log = logging.getLogger(__name__)

Found = TypeVar("Found")

ATTEMPTS = 10
CHILDREN_TELL = 2
"""The version of a file since which it holds what children have used."""
CALLS_WAIT = 3
"""The version of a file since which calls may wait for children that others have started."""


@dataclass(frozen=True, slots=True)
class Glance:
    """What a file says of its thread."""

    due: int | None = None
    """When it should be woken: 0 is now, later is its next timer, None is not by itself."""
    seq: int = 0
    """That of its latest event; a file without any holds no thread yet."""
    calling: bool = False
    """Whether a call of a tool had begun and not ended."""
    status: RunStatus = "registered"
    reason: PauseReason | None = None
    at: int = 0
    """The time of its latest event."""
    born: str = ""
    """When it was created, which tells it from another one that had its id before."""
    spent: Spent = Spent()
    """What all its runs have used so far."""
    children: Spent = Spent()
    """The same of its children, as far as they have reported."""
    title: str = ""
    got_to: int = 0
    """The latest event that tells of more than a recovery, or a warning: a thread that is only taken up gets no
    further."""


_RUNNING = "EXISTS (SELECT 1 FROM runs WHERE status = 'running')"
_UNTOLD = "EXISTS (SELECT 1 FROM kv WHERE owner = 'run_end')"
_LEFT = f"EXISTS (SELECT 1 FROM inbox) OR EXISTS (SELECT 1 FROM outbox) OR {_UNTOLD}"
_WAITED = """
    SELECT 1 FROM waits WHERE NOT EXISTS
    (SELECT 1 FROM json_each(tokens) JOIN children ON token = json_each.value WHERE status = 'waiting')
"""
_REASON = "CASE status WHEN 'paused' THEN json_extract(CAST(machine AS TEXT), '$.paused') END"
_BORN = "(SELECT json_extract(value, '$.createdAt') FROM meta WHERE key = 'metadata')"
_RECOVERIES = (EventType.RUN_RECOVERED, EventType.TOOL_RETRIED, EventType.MODEL_RETRIED, EventType.RUNTIME_WARNING)
_AGAIN = ", ".join(str(EVENT_TYPES.index(each)) for each in _RECOVERIES)
_GLANCE = f"""
    SELECT CASE WHEN {_RUNNING} OR {_LEFT} THEN 0 ELSE (SELECT min(due) FROM timers) END,
           coalesce((SELECT max(seq) FROM events), 0),
           EXISTS (SELECT 1 FROM effects WHERE outcome IS NULL),
           coalesce((SELECT status FROM runs ORDER BY n DESC LIMIT 1), 'registered'),
           (SELECT {_REASON} FROM runs ORDER BY n DESC LIMIT 1),
           coalesce((SELECT ts FROM events ORDER BY seq DESC LIMIT 1), 0),
           coalesce({_BORN}, ''),
           coalesce((SELECT seq FROM events WHERE type NOT IN ({_AGAIN}) ORDER BY seq DESC LIMIT 1), 0)
"""
_ACTIVE = "SELECT machine FROM runs WHERE status IN ('running', 'paused')"
_EVENTS = f"""
    SELECT value, seq, ts, type, run, data FROM meta, events
    WHERE key = 'thread_id' AND seq BETWEEN ? AND ? AND {_BORN} >= ? ORDER BY seq
"""


def glance(path: Path) -> Glance:
    """What a file says of its thread; of one that holds none, nothing."""
    try:
        (due, seq, calling, status, reason, at, born, got_to), spent, children, title = look(path, _glance)
    except (sqlite3.Error, ValidationError):
        return Glance()
    return Glance(due, seq, bool(calling), status, reason, at, born, spent, children, title, got_to)


def _glance(db: sqlite3.Connection) -> tuple[tuple[Any, ...], Spent, Spent, str]:
    db.execute("BEGIN")  # all of it as it was at one moment
    row: tuple[Any, ...] = db.execute(_GLANCE).fetchone()
    ended = [Spent.model_validate_json(body) for (body,) in db.execute("SELECT value FROM meta WHERE key = 'spent'")]
    active = [spent_by(machine) for (machine,) in db.execute(_ACTIVE)]
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version >= CALLS_WAIT and db.execute(_WAITED).fetchone():  # those that a call waits for have ended
        row = (0, *row[1:])
    told = db.execute("SELECT spent FROM children WHERE spent IS NOT NULL") if version >= CHILDREN_TELL else ()
    children = [Spent.model_validate_json(body) for (body,) in told]
    return row, sum([*ended, *active], Spent()), sum(children, Spent()), _title(db)


def _title(db: sqlite3.Connection) -> str:
    stored = db.execute("SELECT value FROM meta WHERE key = 'title'").fetchone()
    return title_in(lambda sql: db.execute(sql).fetchall()) if stored is None else str(stored[0])


def spent_by(machine: bytes) -> Spent:
    """What a run had used when it was last written."""
    try:
        stored = TurnCheckpoint.load(machine)
    except ValidationError:  # waking the thread reports it
        return Spent()
    return TurnMachine(stored).spent(stored.now)


def latest_order(path: Path) -> int:
    """The number of the latest order to open a file that was carried out; 0 if none was."""
    if not path.exists():
        return 0
    sql = f"SELECT value FROM meta WHERE key = '{ORDER}'"
    found: tuple[int] | None = look(path, lambda db: db.execute(sql).fetchone())
    return found[0] if found is not None else 0


def holds_thread(path: Path) -> bool:
    """Whether a file holds a thread: one whose first event is there."""
    return glance(path).seq > 0


def events_between(path: Path, first: int, last: int, born: str) -> list[Event]:
    """The stored events from one seq to another of a thread that was created then, or later; none if it is gone, or if
    its file is damaged: the feed of an agency has the events of its other threads then.

    Raises `StoreError` if they cannot be read just now.
    """

    try:
        rows = look(path, lambda db: db.execute(_EVENTS, (first, last, born)).fetchall())
        return [event_of(*row) for row in rows]
    except sqlite3.Error as error:
        if not (_holds_no_thread(path) or _is_damaged(path, error)):
            raise StoreError(f"cannot read {path}: {error}") from error
    except (ValueError, TypeError, LookupError, OverflowError) as error:  # a row that is there, and is no event
        log.warning("the events %d to %d of %s are damaged: %s", first, last, path, error)
    return []


def _holds_no_thread(path: Path) -> bool:
    """Whether there is no thread in a file, or no file."""
    try:
        return not path.exists() or look(path, lambda db: schema.check(db, path)) == 0
    except (NewerStore, NotAThreadStore) as error:
        log.warning("skipping a file that holds no readable thread: %s", error)
        return True
    except sqlite3.Error:
        return not path.exists()


def _is_damaged(path: Path, error: sqlite3.Error) -> bool:
    """Whether a file will be as unreadable the next time: SQLite says so, or what the query needs is not in it."""
    lacks = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_ERROR
    damaged = lacks or sqlite.is_damage(sqlite.refused("read", path, error))
    if damaged:
        log.warning("skipping the events of a damaged file: %s: %s", path, error)
    return damaged


def look(path: Path, read: Callable[[sqlite3.Connection], Found]) -> Found:
    """What `read` finds in a file. It may be called several times, and the last one counts."""
    for _ in range(ATTEMPTS):
        if any(path.with_name(f"{path.name}-{kind}").exists() for kind in ("wal", "journal")):
            break
        before = _stamp(path)
        try:
            found = _read(path, "ro&immutable=1", read)
        except (sqlite3.Error, StoreError):
            if _stamp(path) == before:
                raise
        else:
            if _stamp(path) == before:
                return found
    return _read(path, "rw", read)


def _read(path: Path, mode: sqlite.Mode, read: Callable[[sqlite3.Connection], Found]) -> Found:
    with closing(sqlite.connect(path, mode)) as db:
        return read(db)


def _stamp(path: Path) -> tuple[int, ...]:
    """Something that changes when the file does."""
    try:
        stat = path.stat()
    except OSError:
        return ()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
