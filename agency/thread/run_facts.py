"""What a run tells about itself beside its result: what it has made use of, what it is doing, who stopped it, and which
descendant keeps it waiting. It is derived from the machine and its rows, so it is the same after a crash; only the
heartbeat, and whether middleware are making room just now, are what this process knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from agency.events import timestamp
from agency.store.records import StoredWarning
from agency.turn.effects import CancelKind
from agency.turn.machine import TurnMachine
from agency.turn.outcomes import Finished, HandedOff, TurnOutcome
from agency.turn.state import WaitingCode, WaitingModel, WaitingTools
from agency.wire import Wire

ActivityKind = Literal["idle", "streaming", "tool", "compacting", "waiting"]
ResultSource = Literal[
    "assistant_message", "structured_output", "tool_value", "submitted_value", "middleware", "handoff"
]


class CapabilitiesUsed(Wire):
    """What a run has made use of. None is unknown: no provider has counted what it used, or an earlier release ran it.
    False is certain."""

    prompt_cache_active: bool | None = None
    """Whether a provider has read from its prompt cache, or written to it."""
    thinking_enabled: bool | None = None
    """Whether a model has thought before it answered."""
    subagent_invoked: bool | None = None
    context_compaction_applied: bool | None = None
    """Whether messages were left out because the conversation was too long."""
    structured_output_enforced: bool = False
    tool_compaction_applied: bool = False
    """Whether a tool's result was cut because it was too long."""
    mcp_servers_used: tuple[str, ...] = ()
    native_subagents_used: tuple[str, ...] = ()
    """The agents that were started as children, by name."""


class RunWarning(Wire):
    """Something that the run has survived. `kind` is stable."""

    kind: str
    message: str
    at: str


class Canceler(Wire):
    """Who canceled a run: a `person`, by the name of the key; the `parent`, or the time `limit` that it had set, by its
    id; the `deletion` of the thread; or a `fork`, which leaves the run to its original."""

    kind: CancelKind
    name: str | None = None


class WaitingFor(Wire):
    """A descendant that waits for a person: with which call, if it is a call, and why it is paused."""

    thread_id: str
    call_id: str | None = None
    reason: str


class WaitingCall(Wire):
    """A call that waits for the outside: for what, and until when."""

    id: str
    name: str
    waits_for: str
    deadline: str | None = None


class Activity(Wire):
    """What a run is doing: a model is at work (`streaming`), a `tool` is, middleware make room because the conversation
    is too long (`compacting`), the run waits for a person, a child, a hook or a time (`waiting`), or it has ended
    (`idle`)."""

    kind: ActivityKind = "idle"
    tool: str | None = None
    """The tool that is at work; of several at once, the first."""
    heartbeat_at: int = 0
    """When the run last got anywhere, in milliseconds: a commit, or a piece of a reply."""


TOOL_RESULT_CUT = "tool_result_cut"
"""The kind of the warning that a tool's result was too long."""


def capabilities_used(
    machine: TurnMachine, children: Iterable[str], warnings: Iterable[StoredWarning], *, fits_schema: bool
) -> CapabilitiesUsed:
    """`children` are the agents that the run has started; `fits_schema`: its result must."""
    usage = machine.usage
    counted = usage.total > 0
    invoked = tuple(dict.fromkeys(children))
    return CapabilitiesUsed(
        prompt_cache_active=usage.cached_input + usage.cache_write > 0 if counted else None,
        thinking_enabled=usage.reasoning > 0 if counted else None,
        subagent_invoked=bool(invoked),
        context_compaction_applied=machine.compacted,
        structured_output_enforced=fits_schema,
        tool_compaction_applied=any(each.kind == TOOL_RESULT_CUT for each in warnings),
        native_subagents_used=invoked,
    )


def warnings_of(stored: Iterable[StoredWarning]) -> tuple[RunWarning, ...]:
    return tuple(RunWarning(kind=each.kind, message=each.message, at=timestamp(each.at)) for each in stored)


def canceler_of(machine: TurnMachine) -> Canceler | None:
    by = machine.canceled_by
    return None if by is None else Canceler(kind=by.kind, name=by.name)


def waiting_calls_of(machine: TurnMachine) -> tuple[WaitingCall, ...]:
    """The calls that wait for the outside."""
    state = machine.state
    if not isinstance(state, WaitingTools):
        return ()
    waiting = ((pending, state.outcomes[pending.id]) for pending in state.deferred("outside"))
    return tuple(
        WaitingCall(
            id=pending.id,
            name=pending.call.name,
            waits_for=outcome.about,
            deadline=None if outcome.until is None else timestamp(outcome.until),
        )
        for pending, outcome in waiting
        if outcome.status == "deferred"
    )


def source_of(outcome: TurnOutcome | None) -> ResultSource | None:
    """Where a run's result comes from, if it has one."""
    match outcome:
        case Finished(by=by):
            return by
        case HandedOff():
            return "handoff"
        case _:
            return None


def activity_of(machine: TurnMachine, heartbeat_at: int, *, compacting: bool) -> Activity:
    kind = "compacting" if compacting else _kind(machine)
    return Activity(kind=kind, tool=_tool(machine), heartbeat_at=heartbeat_at)


def _kind(machine: TurnMachine) -> ActivityKind:
    if machine.outcome is not None:
        return "idle"
    if machine.pause_reason is not None:
        return "waiting"
    match machine.state:
        case WaitingTools():
            return "tool"
        case WaitingCode():
            return "tool"
        case WaitingModel():
            return "streaming"
        case _:
            return "waiting"


def _tool(machine: TurnMachine) -> str | None:
    """The tool at work, if one is: the first of those that are."""
    state = machine.state
    runnable = state.runnable() if isinstance(state, WaitingTools) and machine.pause_reason is None else ()
    return runnable[0].call.name if runnable else None
