"""A thread's file, read beside the thread, which may be at work: tests look at what is on disk, not into the thread."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from agency import Limits, Message
from agency.store.peek import look
from agency.turn import TurnCheckpoint

Row = tuple[Any, ...]


def query(path: Path, sql: str, *params: object) -> list[Row]:
    return look(path, lambda db: db.execute(sql, params).fetchall())


def table(path: Path, name: str) -> list[Row]:
    """All rows of a table."""
    return query(path, f"SELECT * FROM {name}")


def messages_of(path: Path) -> list[Message]:
    rows = query(path, "SELECT body FROM messages ORDER BY seq")
    return [Message.model_validate_json(body) for (body,) in rows]


def kept(path: Path, owner: str) -> dict[str, JsonValue]:
    """The values that are kept under an owner's name."""
    return {key: json.loads(value) for key, value in query(path, "SELECT key, value FROM kv WHERE owner = ?", owner)}


def limits_of_last_run(path: Path) -> Limits:
    ((machine,),) = query(path, "SELECT machine FROM runs ORDER BY n DESC LIMIT 1")
    return TurnCheckpoint.load(machine).limits
