"""What a run in progress has done so far. It is read from the end of the file, so a long history costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pydantic_core import from_json

from agency.events import EventData, EventType
from agency.store.store import EVENT_TYPES, ThreadStore

PAGE = 64

_RUN = "SELECT n, started_at FROM runs WHERE status IN ('running', 'paused') ORDER BY n DESC LIMIT 1"
_EVENTS = "SELECT seq, ts, type, run, data FROM events WHERE seq < ? ORDER BY seq DESC LIMIT ?"
_BEGINNINGS = (EventType.RUN_TICK, EventType.RUN_STARTED)


class PastEvent(NamedTuple):
    seq: int
    ts: int
    type: EventType
    data: EventData


@dataclass(frozen=True, slots=True)
class RunSoFar:
    n: int
    started_at: int
    turn: tuple[PastEvent, ...]
    """The events of its latest turn, oldest first."""


def run_so_far(store: ThreadStore) -> RunSoFar | None:
    """The run in progress; None if there is none."""
    rows = store.query(_RUN)
    if not rows:
        return None
    n, started_at = int(str(rows[0][0])), int(str(rows[0][1]))
    return RunSoFar(n, started_at, tuple(reversed(_latest_turn(store, n))))


def _latest_turn(store: ThreadStore, run: int) -> list[PastEvent]:
    """Newest first."""
    found: list[PastEvent] = []
    before = store.last_seq + 1
    while rows := store.query(_EVENTS, (before, PAGE)):
        for seq, ts, code, owner, data in rows:
            before = int(str(seq))
            if owner != run:
                continue
            found.append(PastEvent(before, int(str(ts)), EVENT_TYPES[int(str(code))], from_json(str(data))))
            if found[-1].type in _BEGINNINGS:
                return found
    return found
