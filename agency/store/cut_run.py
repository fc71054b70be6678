"""What becomes of a run that a fork cuts in two: it ends there, and no call is left without a result.

Calls that had ended have their results, though the transcript had not got them yet: they are in its later part, which
the fork does without, or with the run. The others are not run in the fork; the model reads so.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pydantic_core import from_json, to_json

from agency.events import EventData, EventType
from agency.messages import Message, ToolCall, Usage
from agency.store.records import OUTCOME
from agency.store.run_so_far import PastEvent
from agency.store.store import EVENT_TYPES
from agency.turn.effects import CanceledBy, PendingCall
from agency.turn.modes import tool_message
from agency.turn.outcomes import CANCELED, Canceled, Success
from agency.turn.state import Ended, RetryTools, TurnCheckpoint, WaitingSleep, WaitingTools

FORKED = replace(CANCELED, message="the thread was forked in the middle of this run")
NOT_RUN = Canceled(reason="it had not ended when this thread was forked from another one, and is not run here")

_ID = re.compile(r"m(\d+)\.")
_ENDS = frozenset({EventType.AGENT_COMPLETED, EventType.AGENT_ERROR, EventType.RUN_CANCELED})
_OF_CALLS = frozenset({EventType.TOOL_STARTED, EventType.TOOL_OUTPUT, EventType.TOOL_ERROR})


@dataclass(frozen=True, slots=True)
class CutRun:
    """How a run that was in progress ends in the fork."""

    machine: bytes
    by: CanceledBy
    results: tuple[Message, ...]
    """What the calls get that have none in the transcript."""


def last_run(db: sqlite3.Connection, seq: int, kept: int) -> int:
    """The run that had begun last after an event, when the thread had so many messages; 0 is none. Most begin with a
    message, whose id begins with its run: `m2.1` was the first of run 2. A retry has events before it has a message."""
    (told,) = db.execute("SELECT coalesce(max(run), 0) FROM events WHERE seq <= ?", (seq,)).fetchone()
    rows = db.execute("SELECT json_extract(body, '$.id') FROM messages WHERE seq <= ? ORDER BY seq DESC", (kept,))
    named = (_ID.match(message_id or "") for (message_id,) in rows)
    return max(int(told), next((int(found[1]) for found in named if found), 0))


def cut_run(db: sqlite3.Connection, n: int, seq: int, kept: int) -> CutRun | None:
    """How run `n` ends, if it was in progress after an event, with the thread's first `kept` messages."""
    row = db.execute("SELECT machine FROM runs WHERE n = ?", (n,)).fetchone()
    done = [event for event in _events(db, n) if event.seq <= seq]
    if row is None or any(event.type in _ENDS for event in done):
        return None
    run = TurnCheckpoint.load(row[0])
    results = tuple(
        message.model_copy(update={"id": f"m{n}.fork{i}"}) for i, message in enumerate(_results(db, run, seq, kept), 1)
    )
    (original,) = db.execute("SELECT value FROM meta WHERE key = 'thread_id'").fetchone()
    by = CanceledBy(kind="fork", name=original)
    return CutRun(_ended(run, done, kept + len(results), by).dump(), by, results)


def _events(db: sqlite3.Connection, run: int) -> Iterator[PastEvent]:
    rows = db.execute("SELECT seq, ts, type, data FROM events WHERE run = ? ORDER BY seq", (run,))
    return (PastEvent(seq, ts, EVENT_TYPES[code], from_json(data)) for seq, ts, code, data in rows)


def _ended(run: TurnCheckpoint, done: Sequence[PastEvent], position: int, by: CanceledBy) -> TurnCheckpoint:
    """The run as it would be if it had been canceled after these events."""
    turn, usage, active = 0, Usage(), 0
    cost: float | None = 0.0
    since: int | None = done[0].ts
    for event in done:
        match event.type, event.data:
            case EventType.RUN_TICK, {"step": int(step)}:
                turn = step
            case (
                (EventType.MODEL_COMPLETED | EventType.MODEL_ASKED),
                {"total": dict(total), "totalCostUsd": (float() | int() | None) as spent},
            ):
                usage, cost = _usage(total), spent
            case EventType.RUN_PAUSED, _ if since is not None:
                active, since = active + event.ts - since, None
            case EventType.RUN_RESUMED, _:
                since = event.ts
    now = done[-1].ts
    return replace(
        run,
        state=Ended(outcome=FORKED),
        notices=[],
        position=position,
        shown=position,
        turn=turn,
        turns_begun=turn,
        usage=usage,
        cost_usd=cost,
        children=None,
        failures=[failure for failure in run.failures if failure.at <= now],
        pause_reason=None,
        canceled_by=by,
        now=now,
        active_since=now,
        elapsed_ms=active + (0 if since is None else now - since),
    )


def _usage(total: EventData) -> Usage:
    """Tokens as `model.completed` tells them."""
    names = ("inputTokens", "outputTokens", "cachedInputTokens", "cacheWriteTokens", "reasoningTokens")
    read, written, cached, kept, reasoning = (int(str(total.get(name, 0))) for name in names)
    return Usage(input=read, output=written, cached_input=cached, cache_write=kept, reasoning=reasoning)


# Results.


def _results(db: sqlite3.Connection, run: TurnCheckpoint, seq: int, kept: int) -> Iterator[Message]:
    """One for each call of the last reply that has none among the first `kept` messages."""
    at, calls = _unanswered(db, kept)
    happened = [event for event in _events(db, run.run) if event.seq > at and event.type in _OF_CALLS] if calls else []
    later, outcomes = _later_results(db, kept), _outcomes(db, run)
    for call in calls:
        own = [event for event in happened if event.data.get("callId") == call.id]
        done = [event for event in own if event.seq <= seq]
        answered, message = later.get(call.id, (None, None))
        if not done or done[-1].type == EventType.TOOL_STARTED:
            yield tool_message(_pending(call), NOT_RUN)
        elif any(event.type == EventType.TOOL_STARTED for event in own if seq < event.seq <= (answered or event.seq)):
            yield _as_told(call, done[-1])  # it was tried again after that
        elif message is not None:
            yield message
        elif call.id in outcomes:
            yield outcomes[call.id]
        else:
            yield _as_told(call, done[-1])


def _unanswered(db: sqlite3.Connection, kept: int) -> tuple[int, list[ToolCall]]:
    """The calls of the last reply that have no result yet, and the event before the reply."""
    answered: set[str | None] = set()
    for at, body in db.execute("SELECT at, body FROM messages WHERE seq <= ? ORDER BY seq DESC", (kept,)):
        message = Message.model_validate_json(body)
        answered.add(message.tool_call_id)
        if message.role == "assistant":
            return at, [call for call in message.tool_calls if call.id not in answered]
    return 0, []


def _later_results(db: sqlite3.Connection, kept: int) -> dict[str, tuple[int, Message]]:
    """The results that the transcript has before its next reply, each with the event before it."""
    found: dict[str, tuple[int, Message]] = {}
    for at, body in db.execute("SELECT at, body FROM messages WHERE seq > ? ORDER BY seq", (kept,)):
        message = Message.model_validate_json(body)
        if message.role == "assistant":
            break
        if message.tool_call_id is not None:
            found[message.tool_call_id] = (at, message)
    return found


def _outcomes(db: sqlite3.Connection, run: TurnCheckpoint) -> dict[str, Message]:
    """The results that a run which is still in progress holds, as the transcript will have them."""
    state = run.state.then if isinstance(run.state, WaitingSleep) else run.state
    if not isinstance(state, WaitingTools | RetryTools):
        return {}
    rows = db.execute("SELECT call, outcome FROM effects WHERE run = ? AND outcome IS NOT NULL", (run.run,))
    outcomes = {**state.outcomes, **{call: OUTCOME.validate_json(outcome) for call, outcome in rows}}
    return {
        pending.id: tool_message(pending, outcome)
        for pending in state.calls
        if (outcome := outcomes.get(pending.id)) is not None and outcome.status != "deferred"
    }


def _as_told(call: ToolCall, event: PastEvent) -> Message:
    """What the event says of a result, which may be cut."""
    said = event.data.get("output", event.data.get("error"))
    is_json = not isinstance(said, str)
    content = to_json(said).decode() if is_json else str(said)
    message = tool_message(_pending(call), Success(content=content, is_json=is_json))
    failed = event.type == EventType.TOOL_ERROR
    return message.model_copy(update={"meta": {"status": "failure"}}) if failed else message


def _pending(call: ToolCall) -> PendingCall:
    return PendingCall(call=call, key="")
