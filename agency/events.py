"""The events of a thread: their names, their data, and the only place where they are made.

A stored event has a `seq` that counts from 1 without a gap. `model.delta` is broadcast and never stored, so its
`seq` is None: a reader that comes late gets the text so far in one delta. The run that an event belongs to is kept
beside it and added to its data as `runId` when it is read.

Large because it is the only place where events are made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal, NamedTuple

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from agency.errors import FailureKind
from agency.messages import Image, ToolCall, Usage
from agency.redaction import shown
from agency.wire import Wire

OURS = "\x1f"
"""With which idempotency keys of our own begin, so that they never meet a user's."""

PREVIEW_CHARS = 2_000
"""An event shows at most this much of a call's arguments, of its output or of a child's report. What was cut of a call
is marked as `truncated`; `Thread.tool_call` has all of it."""

BRIEF_CHARS = 200
"""Arguments that are too long altogether keep this much of each of their texts."""


class EventType(StrEnum):
    """What happened. `docs/api.md` lists what each event holds."""

    THREAD_CREATED = "thread.created"
    REQUEST_ACCEPTED = "request.accepted"
    RUN_STARTED = "run.started"
    RUN_TICK = "run.tick"
    RUN_PAUSED = "run.paused"
    RUN_RESUMED = "run.resumed"
    RUN_CANCELED = "run.canceled"
    AGENT_STARTED = "agent.started"
    AGENT_COMPLETED = "agent.completed"
    AGENT_ERROR = "agent.error"
    CHECKPOINT_SAVED = "checkpoint.saved"
    MODEL_STARTED = "model.started"
    MODEL_DELTA = "model.delta"
    MODEL_COMPLETED = "model.completed"
    MIDDLEWARE_BEFORE_MODEL = "middleware.before_model"
    MIDDLEWARE_AFTER_MODEL = "middleware.after_model"
    TOOL_STARTED = "tool.started"
    TOOL_OUTPUT = "tool.output"
    TOOL_ERROR = "tool.error"
    HITL_INTERRUPT = "hitl.interrupt"
    HITL_RESUME = "hitl.resume"
    SUBAGENT_SPAWNED = "subagent.spawned"
    SUBAGENT_COMPLETED = "subagent.completed"
    CAPABILITIES_RESOLVED = "capabilities.resolved"
    RUNTIME_WARNING = "runtime.warning"
    MODEL_ASKED = "model.asked"
    TOOL_WAITING = "tool.waiting"
    RUN_RECOVERED = "run.recovered"
    TOOL_RETRIED = "tool.retried"
    MODEL_RETRIED = "model.retried"
    STATE_EDITED = "state.edited"


EventData = Mapping[str, JsonValue]


class Event(Wire):
    """An event as clients see it."""

    thread_id: str
    seq: int | None
    ts: str
    type: EventType
    data: dict[str, JsonValue]


class NewEvent(NamedTuple):
    """An event that has happened and is not stored yet."""

    type: EventType
    data: EventData


def timestamp(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def preview(text: str) -> str:
    """The beginning of `text`, with a note of what was left out."""
    left_out = len(text) - PREVIEW_CHARS
    return text if left_out <= 0 else f"{text[:PREVIEW_CHARS]}… ({left_out} more characters)"


def thread_created(agent_type: str, forked_from: dict[str, JsonValue] | None = None) -> NewEvent:
    """A fork begins with the events of another thread, and then this one says of which."""
    created: EventData = {"agentType": agent_type}
    return NewEvent(
        EventType.THREAD_CREATED, created if forked_from is None else {**created, "forkedFrom": forked_from}
    )


def request_accepted(idempotency_key: str, retry_of: str | None = None) -> NewEvent:
    """A key of our own is shown as a digest: it is no key that a caller could use. `retry_of` is the run that failed
    and is tried again."""
    ours = idempotency_key.startswith(OURS)
    named = hashlib.blake2b(idempotency_key.encode(), digest_size=12).hexdigest() if ours else idempotency_key
    accepted: EventData = {"idempotencyKey": named}
    return NewEvent(EventType.REQUEST_ACCEPTED, accepted if retry_of is None else {**accepted, "retryOf": retry_of})


def run_started() -> NewEvent:
    return NewEvent(EventType.RUN_STARTED, {})


def run_tick(turn: int) -> NewEvent:
    return NewEvent(EventType.RUN_TICK, {"step": turn})


def run_paused(reason: str, code: str | None = None) -> NewEvent:
    return NewEvent(EventType.RUN_PAUSED, {"reason": reason, "code": code} if code else {"reason": reason})


def run_resumed() -> NewEvent:
    return NewEvent(EventType.RUN_RESUMED, {})


RecoveryWhy = Literal["died", "stopped"]
"""Why a run, or a call of it, had to be taken up again: its process died, or was stopped while it was at work."""

RetryWhy = Literal["died", "stopped", "error", "decided"]
"""Why a call is made again: the same, or it failed, or a person wants a call in doubt to run again."""

AtWork = Literal["turn", "model", "tools", "code"]
"""What a run was doing when it was left: between two steps of a turn, or in one of them."""


def run_recovered(attempt: int, why: RecoveryWhy, doing: AtWork, last_at: int, activation: int) -> NewEvent:
    """A run was at work when its process went away, and goes on here. `attempt` counts the processes that have worked
    on it, `last_at` is its last sign of life, `activation` how often the thread was opened."""
    data: EventData = {
        "attempt": attempt,
        "why": why,
        "doing": doing,
        "lastWorkAt": timestamp(last_at),
        "activation": activation,
    }
    return NewEvent(EventType.RUN_RECOVERED, data)


def run_canceled(by: EventData | None = None) -> NewEvent:
    """`by` says who canceled it: `kind`, and a `name` if there is one."""
    return NewEvent(EventType.RUN_CANCELED, {} if by is None else {"by": dict(by)})


def runtime_warning(kind: str, message: str) -> NewEvent:
    return NewEvent(EventType.RUNTIME_WARNING, {"kind": kind, "message": message})


def capabilities_resolved(used: EventData) -> NewEvent:
    """What the run has made use of, as far as that is known when it ends."""
    return NewEvent(EventType.CAPABILITIES_RESOLVED, used)


def agent_started() -> NewEvent:
    return NewEvent(EventType.AGENT_STARTED, {})


def agent_completed(result: JsonValue) -> NewEvent:
    return NewEvent(EventType.AGENT_COMPLETED, {"result": result})


def agent_error(code: str, error: str) -> NewEvent:
    return NewEvent(EventType.AGENT_ERROR, {"code": code, "error": error})


def checkpoint_saved(state_hash: str, size: int) -> NewEvent:
    return NewEvent(EventType.CHECKPOINT_SAVED, {"stateHash": state_hash, "size": size})


def model_started(model: str, message_count: int, *, seen: int = 0, surface: str = "", final: bool = False) -> NewEvent:
    """A model is asked with the thread's first so many messages, of which the run's model had `seen` some before.
    `surface` names the rest of the request; `final`: no tool may be called any more."""
    data: dict[str, JsonValue] = {"model": model, "messages": message_count, "seen": seen, "surface": surface}
    return NewEvent(EventType.MODEL_STARTED, {**data, "final": True} if final else data)


def model_delta(thread_id: str, run_id: str, delta: str, offset: int, ts: int) -> Event:
    """A piece of a reply as it comes; `offset` is where it begins in the reply's text. Never stored."""
    data: dict[str, JsonValue] = {"runId": run_id, "delta": delta, "offset": offset}
    return Event(thread_id=thread_id, seq=None, ts=timestamp(ts), type=EventType.MODEL_DELTA, data=data)


def model_completed(
    model: str,
    usage: Usage,
    cost_usd: float | None,
    total: Usage,
    total_cost_usd: float | None,
    *,
    stop: str = "stop",
    request_id: str | None = None,
    first_token_ms: int | None = None,
) -> NewEvent:
    """A model has replied. A cost of None is unknown; the totals are the run's own so far. `request_id` is the
    provider's, `first_token_ms` when the reply's text began."""
    data: dict[str, JsonValue] = {
        "model": model,
        "usage": _tokens(usage),
        "costUsd": cost_usd,
        "total": _tokens(total),
        "totalCostUsd": total_cost_usd,
        "stop": stop,
    }
    if request_id is not None:
        data["requestId"] = request_id
    if first_token_ms is not None:
        data["firstTokenMs"] = first_token_ms
    return NewEvent(EventType.MODEL_COMPLETED, data)


def _tokens(usage: Usage) -> dict[str, JsonValue]:
    counts: dict[str, JsonValue] = {"inputTokens": usage.input, "outputTokens": usage.output}
    if usage.cached_input:
        counts["cachedInputTokens"] = usage.cached_input
    if usage.cache_write:
        counts["cacheWriteTokens"] = usage.cache_write
    if usage.reasoning:
        counts["reasoningTokens"] = usage.reasoning
    return counts


def model_failed(
    model: str, code: str, error: str, *, request_id: str | None, retry_at: int | None = None, then: str | None = None
) -> NewEvent:
    """A model call that failed: `model.completed` with an error, and when it is tried again or which model is next."""
    data: dict[str, JsonValue] = {"model": model, "error": {"code": code, "message": error}}
    if request_id is not None:
        data["requestId"] = request_id
    if retry_at is not None:
        data["retryAt"] = timestamp(retry_at)
    if then is not None:
        data["next"] = then
    return NewEvent(EventType.MODEL_COMPLETED, data)


def model_retried(
    model: str,
    attempt: int,
    why: RetryWhy,
    error: tuple[str, str] | None = None,
    retry_at: int | None = None,
) -> NewEvent:
    """A call that came to nothing is made again: of this model, at once or at a time. `error` is the code and the
    message of the one before."""
    return NewEvent(EventType.MODEL_RETRIED, {"model": model, **_again(attempt, why, "code", error, retry_at)})


def _again(
    attempt: int,
    why: RetryWhy,
    named: Literal["code", "kind"],
    error: tuple[str, str] | None,
    retry_at: int | None,
) -> dict[str, JsonValue]:
    data: dict[str, JsonValue] = {"attempt": attempt, "why": why}
    if error is not None:
        data["error"] = {named: error[0], "message": preview(error[1])}
    if retry_at is not None:
        data["retryAt"] = timestamp(retry_at)
    return data


def model_asked(
    model: str,
    by: str,
    call_id: str | None,
    took_ms: int,
    usage: Usage,
    cost_usd: float | None,
    total: Usage,
    total_cost_usd: float | None,
    error: tuple[str, str] | None = None,
) -> NewEvent:
    """A tool or a middleware, `by`, has asked a model aside, and that is charged to the run; `error` is the code and
    the message of a call that failed."""
    data: dict[str, JsonValue] = {"model": model, "by": by}
    if call_id is not None:
        data["callId"] = call_id
    data |= {
        "durationMs": took_ms,
        "usage": _tokens(usage),
        "costUsd": cost_usd,
        "total": _tokens(total),
        "totalCostUsd": total_cost_usd,
    }
    if error is not None:
        data["error"] = {"code": error[0], "message": error[1]}
    return NewEvent(EventType.MODEL_ASKED, data)


def before_model(middleware: str) -> NewEvent:
    return NewEvent(EventType.MIDDLEWARE_BEFORE_MODEL, {"middlewareName": middleware})


def after_model(middleware: str) -> NewEvent:
    return NewEvent(EventType.MIDDLEWARE_AFTER_MODEL, {"middlewareName": middleware})


Hidden = Collection[str]
"""The arguments of a call that people are not shown."""


ToolType = Literal["function", "task", "middleware", "unknown"]
"""What is called: a tool of the program, one that runs as a Ray task, one that a middleware brings, or a name that no
tool has."""


def tool_started(call: ToolCall, hidden: Hidden = (), tool_type: ToolType = "function") -> NewEvent:
    return NewEvent(EventType.TOOL_STARTED, {**_shown(call, hidden), "toolType": tool_type})


def _shown(call: ToolCall, hidden: Hidden) -> dict[str, JsonValue]:
    """A call as events show it: without secrets. Of arguments that are long altogether, the texts are cut; if they are
    too long even so, they are a string, and that is cut."""
    args = shown(call.args, hidden)
    data: dict[str, JsonValue] = {"toolName": call.name, "callId": call.id, "args": args}
    written = to_json(args)
    if len(written) <= PREVIEW_CHARS:
        return data
    briefly = shown(call.args, hidden, longest=BRIEF_CHARS)
    fits = len(to_json(briefly)) <= PREVIEW_CHARS
    return {**data, "args": briefly if fits else preview(written.decode()), "truncated": True}


def json_value(text: str) -> JsonValue:
    """The value that a tool returned. What is no JSON any more, because a secret was taken out of it, is its text."""
    try:
        value: JsonValue = from_json(text)
    except ValueError:
        return text
    return value


def tool_output(
    name: str,
    call_id: str,
    output: str,
    images: Sequence[Image] = (),
    files: Sequence[str] = (),
    *,
    is_json: bool = False,
) -> NewEvent:
    """A call succeeded. If the output `is_json`, the event has the value, unless it is too long. Of images the event
    has what they are, of files their paths; the transcript has the images."""
    long = len(output) > PREVIEW_CHARS
    told = preview(output) if long else json_value(output) if is_json else output
    data: dict[str, JsonValue] = {"toolName": name, "callId": call_id, "output": told}
    if long:
        data["truncated"] = True
    if images:
        data["images"] = [_described(image) for image in images]
    if files:
        data["files"] = list(files)
    return NewEvent(EventType.TOOL_OUTPUT, data)


def _described(image: Image) -> JsonValue:
    if image.url is not None:
        return {"url": image.url}
    data = image.data or ""
    return {"mediaType": image.media_type, "bytes": len(data) * 3 // 4 - data.count("=", -2)}


def tool_error(name: str, call_id: str, error: str, kind: FailureKind | Literal["canceled"]) -> NewEvent:
    data: dict[str, JsonValue] = {"toolName": name, "callId": call_id, "error": preview(error), "kind": kind}
    return NewEvent(EventType.TOOL_ERROR, {**data, "truncated": True} if len(error) > PREVIEW_CHARS else data)


def tool_retried(
    name: str,
    call_id: str,
    attempt: int,
    why: RetryWhy,
    error: tuple[str, str] | None = None,
    retry_at: int | None = None,
) -> NewEvent:
    """A call runs again: now, in the place of one that a process left behind; or, with its own `tool.started`, because
    a person says so, or at a time, because it failed: then `error` is the kind of that failure and its message."""
    again = _again(attempt, why, "kind", error, retry_at)
    return NewEvent(EventType.TOOL_RETRIED, {"toolName": name, "callId": call_id, **again})


def tool_waiting(name: str, call_id: str, about: str, until: int | None) -> NewEvent:
    """A call waits for the outside; the token that settles it is no part of this."""
    data: dict[str, JsonValue] = {"toolName": name, "callId": call_id, "waitsFor": about}
    return NewEvent(EventType.TOOL_WAITING, data if until is None else {**data, "deadline": timestamp(until)})


def hitl_interrupt(calls: Sequence[tuple[ToolCall, Hidden]], kind: str) -> NewEvent:
    proposed: list[JsonValue] = [_shown(*call) for call in calls]
    return NewEvent(EventType.HITL_INTERRUPT, {"proposedToolCalls": proposed, "kind": kind})


def hitl_resume(
    approved: bool,
    decisions: Mapping[str, str],
    modified: Sequence[tuple[ToolCall, Hidden]],
    by: str,
    who: str | None = None,
) -> NewEvent:
    data: dict[str, JsonValue] = {"approved": approved, "decisions": dict(decisions)}
    if by != "person":
        data["by"] = by
    if who is not None:
        data["decidedBy"] = who
    if modified:
        data["modifiedToolCalls"] = [_shown(*call) for call in modified]
    return NewEvent(EventType.HITL_RESUME, data)


def subagent_spawned(child_thread_id: str, agent_type: str, call_id: str, *, background: bool = False) -> NewEvent:
    data: dict[str, JsonValue] = {"childThreadId": child_thread_id, "agentType": agent_type, "callId": call_id}
    return NewEvent(EventType.SUBAGENT_SPAWNED, {**data, "background": True} if background else data)


def subagent_completed(child_thread_id: str, status: str, result: str) -> NewEvent:
    return NewEvent(
        EventType.SUBAGENT_COMPLETED, {"childThreadId": child_thread_id, "status": status, "result": preview(result)}
    )


StateChange = Literal["uploaded", "edited", "deleted"]
PATHS_SHOWN = 50


def state_edited(part: str, change: StateChange, paths: Sequence[str] = (), by: str | None = None) -> NewEvent:
    """A person, or a program, has changed what the agent keeps: a part of its state, such as its `todos` or `files`;
    of files the event has the paths, never what is in them."""
    data: dict[str, JsonValue] = {"part": part, "change": change}
    if paths:
        data["paths"] = list(paths[:PATHS_SHOWN])
    if len(paths) > PATHS_SHOWN:
        data["morePaths"] = len(paths) - PATHS_SHOWN
    if by is not None:
        data["by"] = by
    return NewEvent(EventType.STATE_EDITED, data)
