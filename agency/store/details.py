"""What people who look for a defect want to know of a call, beside what the model reads: tracebacks, what was printed,
and what models were asked aside.

A detail is committed with what it is about, and has the number of the last event before that commit (`at`). It is
never part of an event or of the conversation: those have more readers.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from agency.events import EventType
from agency.store.draft import Draft, Value
from agency.store.store import EVENT_TYPES, ThreadStore

DetailKind = Literal["tool", "model", "aside", "failed_aside", "run"]
"""A call of a tool, by its id; a model call of the run that failed; one that a hook or a tool made, and one of those
that failed; the end of a run."""

DETAIL_BYTES = 256_000
"""What is longer, compressed, is not kept."""

_SMALL = 500
_KEEP = (
    "INSERT INTO details (at, run, kind, call, body) VALUES ((SELECT coalesce(max(seq), 0) FROM events), ?, ?, ?, ?)"
)
_TELLING: dict[DetailKind, tuple[EventType, ...]] = {
    "tool": (EventType.TOOL_OUTPUT, EventType.TOOL_ERROR, EventType.TOOL_WAITING),
    "model": (EventType.MODEL_COMPLETED,),
    "aside": (EventType.MODEL_ASKED,),
    "failed_aside": (EventType.MODEL_ASKED,),
    "run": (EventType.AGENT_ERROR,),
}


@dataclass(frozen=True, slots=True)
class Detail:
    at: int
    run: int
    kind: DetailKind
    call: str
    body: dict[str, JsonValue]


def keep_detail(draft: Draft, kind: DetailKind, call: str, body: JsonValue) -> bool:
    """Stage a detail of the draft's run; False if it is too long to be kept."""
    written = to_json(body)
    stored = written if len(written) < _SMALL else zlib.compress(written)
    if len(stored) > DETAIL_BYTES:
        return False
    draft.execute(_KEEP, (draft.run, kind, call, stored))
    return True


def details(
    store: ThreadStore, *, kind: DetailKind | None = None, call: str | None = None, after: int = 0, before: int = 2**62
) -> list[Detail]:
    """The details of commits after which `at` was in this range, oldest first."""
    sql = "SELECT at, run, kind, call, body FROM details WHERE at >= ? AND at < ?"
    params: list[Value] = [after, before]
    for column, wanted in (("kind", kind), ("call", call)):
        if wanted is not None:
            sql += f" AND {column} = ?"
            params.append(wanted)
    return [_detail(*row) for row in store.query(f"{sql} ORDER BY n", params)]  # type: ignore[arg-type]  # STRICT


def latest_detail(store: ThreadStore, kind: DetailKind, before: int) -> Detail | None:
    """The latest of a kind that an event before this one comes before."""
    sql = "SELECT at, run, kind, call, body FROM details WHERE kind = ? AND at < ? ORDER BY n DESC LIMIT 1"
    rows = store.query(sql, (kind, before))
    return _detail(*rows[0]) if rows else None  # type: ignore[arg-type]  # STRICT


def failures(store: ThreadStore, after: int = 0) -> list[Detail]:
    """What failed or printed, oldest first, from the commit on that an event is of. What was asked aside is left out:
    it may be long."""
    since = "coalesce((SELECT max(at) FROM details WHERE at < ?), 0)"  # events of one commit have one `at`
    sql = f"SELECT at, run, kind, call, body FROM details WHERE kind <> 'aside' AND at >= {since} ORDER BY n"
    return [_detail(*row) for row in store.query(sql, (after,))]  # type: ignore[arg-type]  # STRICT


def _detail(at: int, run: int, kind: DetailKind, call: str, stored: bytes) -> Detail:
    return Detail(at, run, kind, call, from_json(stored if stored.startswith(b"{") else zlib.decompress(stored)))


def telling_event(store: ThreadStore, detail: Detail) -> int:
    """The event that tells of what a detail is about: the first of its kind in or after the commit."""
    codes = [EVENT_TYPES.index(each) for each in _TELLING[detail.kind]]
    sql = f"SELECT min(seq) FROM events WHERE seq > ? AND run = ? AND type IN ({','.join(map(str, codes))})"
    params: list[Value] = [detail.at, detail.run]
    if detail.kind == "tool":
        sql += " AND instr(data, ?)"
        params.append(f'"callId":{to_json(detail.call).decode()}')
    ((seq,),) = store.query(sql, params)
    return int(str(seq)) if seq is not None else detail.at
