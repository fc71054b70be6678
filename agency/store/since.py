"""What a thread's file holds since it was last read: what was said, and the events that figures are made of.

It reads from outside, as `peek` does: nothing is woken, written or waited for. The caller keeps how far it has read.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from agency.errors import StoreError
from agency.events import EventType
from agency.store import schema
from agency.store.peek import look, spent_by
from agency.store.store import EVENT_TYPES

TEXT_MOST = 100_000
"""So many characters of a message are read."""

ENDS = frozenset({EventType.AGENT_COMPLETED, EventType.AGENT_ERROR, EventType.RUN_CANCELED})
COUNTED = ENDS | {
    EventType.MODEL_COMPLETED,
    EventType.MODEL_ASKED,
    EventType.TOOL_STARTED,
    EventType.TOOL_ERROR,
}
_CODES = ",".join(str(code) for code, kind in enumerate(EVENT_TYPES) if kind in COUNTED)
_EVENTS = f"SELECT ts, type, run, data FROM events WHERE seq > ? AND type IN ({_CODES}) ORDER BY seq"
_MESSAGES = """
    SELECT seq, json_extract(body, '$.role'), json_extract(body, '$.id'), {at},
           substr(json_extract(body, '$.content'), 1, ?)
    FROM messages WHERE seq > ? AND json_extract(body, '$.role') IN ('user', 'assistant')
    AND json_extract(body, '$.origin') IS NULL AND coalesce(json_extract(body, '$.content'), '') <> '' ORDER BY seq
"""
_AT = "(SELECT ts FROM events WHERE events.seq = messages.at + 1)"


@dataclass(frozen=True, slots=True)
class SaidText:
    number: int
    """Of the message in its thread."""
    role: str
    message_id: str
    at: int | None
    text: str


@dataclass(frozen=True, slots=True)
class CountedEvent:
    at: int
    type: EventType
    data: dict[str, Any]
    worked_ms: int | None = None
    """How long the run worked that this event ended."""


@dataclass(frozen=True, slots=True)
class SinceThen:
    """`seq` and `messages` are how far the file is now."""

    seq: int
    messages: int
    said: tuple[SaidText, ...]
    counted: tuple[CountedEvent, ...]


def read_since(path: Path, seq: int, messages: int) -> SinceThen | None:
    """What came after an event and a message; None if the file holds no thread, or cannot be read now. If the file
    holds less than that, it is from an earlier time, and all that it says is returned."""
    try:
        return look(path, lambda db: _read(db, path, seq, messages))
    except (sqlite3.Error, StoreError, ValueError, IndexError):  # what is damaged may say anything
        return None


def _read(db: sqlite3.Connection, path: Path, seq: int, messages: int) -> SinceThen | None:
    version = schema.check(db, path)
    if version == 0:
        return None
    db.execute("BEGIN")  # all of it as it was at one moment
    last, count = db.execute(
        "SELECT (SELECT coalesce(max(seq), 0) FROM events), (SELECT coalesce(max(seq), 0) FROM messages)"
    ).fetchone()
    asked = _MESSAGES.format(at=_AT if version >= schema.HISTORY else "NULL")
    said = db.execute(asked, (TEXT_MOST, messages if messages <= count else 0)).fetchall()
    return SinceThen(
        last,
        count,
        tuple(SaidText(number, role, name or "", at, text) for number, role, name, at, text in said),
        tuple(_event(db, *row) for row in db.execute(_EVENTS, (seq,)).fetchall()),
    )


def _event(db: sqlite3.Connection, at: int, code: int, run: int, data: str) -> CountedEvent:
    kind, worked = EVENT_TYPES[code], None
    if kind in ENDS and (row := db.execute("SELECT machine FROM runs WHERE n = ?", (run,)).fetchone()) is not None:
        worked = spent_by(row[0]).active_ms
    return CountedEvent(at, kind, from_json(data), worked)
