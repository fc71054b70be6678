"""What clients see of a thread and its runs."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from agency.blueprint import ThreadMetadata
from agency.messages import Message, ToolCall, Usage
from agency.models import ToolSpec
from agency.store.records import StoredRun
from agency.store.store import run_id
from agency.turn.machine import TurnMachine
from agency.turn.outcomes import Finished, HandedOff, Stopped, TurnOutcome
from agency.turn.state import PauseReason, TurnCheckpoint, WaitingTools
from agency.wire import Wire, now_ms

RunStatus = Literal["idle", "running", "paused", "completed", "canceled", "error"]


class Accepted(Wire):
    """The answer to a message: the run that it started or joined."""

    run_id: str
    status: RunStatus


class RunState(Wire):
    """`idle` is a thread that has not run yet; its `run_id` is empty."""

    run_id: str = ""
    status: RunStatus = "idle"
    step: int = 0
    reason: PauseReason | None = None


class ThreadState(Wire):
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    thread: ThreadMetadata
    model: str
    more: dict[str, JsonValue]
    """What the middleware add: todos, files, subagents, …"""


class ErrorInfo(Wire):
    code: str
    message: str


class RunMeta(Wire):
    thread_id: str
    agent_type: str
    turns: int
    tokens_used: Usage
    cost_usd: float | None = None
    """None is unknown."""
    duration_ms: int
    pause_reason: PauseReason | None = None
    pending_tool_calls: tuple[ToolCall, ...] = ()


class RunEnvelope(Wire):
    """One shape for every status of a run."""

    run_id: str
    status: RunStatus
    data: JsonValue
    meta: RunMeta
    errors: tuple[ErrorInfo, ...] = ()
    timestamp: int


def status_of(machine: TurnMachine) -> RunStatus:
    match machine.outcome:
        case None:
            return "paused" if machine.paused else "running"
        case Stopped(reason="canceled"):
            return "canceled"
        case Stopped():
            return "error"
        case _:
            return "completed"


def result_of(outcome: TurnOutcome | None) -> JsonValue:
    match outcome:
        case Finished(value=value):
            return value
        case HandedOff(thread_id=thread_id):
            return {"handoff": thread_id}
        case _:
            return None


def envelope(metadata: ThreadMetadata, run: StoredRun) -> RunEnvelope:
    machine = TurnMachine(TurnCheckpoint.load(run.machine))
    outcome = machine.outcome
    errors: tuple[ErrorInfo, ...] = ()
    if isinstance(outcome, Stopped):
        errors = (ErrorInfo(code=outcome.code, message=outcome.message),)
    elif machine.exhausted_by is not None:
        errors = (ErrorInfo(code=machine.exhausted_by, message="a limit of the run is used up"),)
    now = now_ms()
    return RunEnvelope(
        run_id=run_id(metadata.id, run.n),
        status=status_of(machine),
        data=result_of(outcome),
        meta=RunMeta(
            thread_id=metadata.id,
            agent_type=metadata.agent_type,
            turns=machine.turn,
            tokens_used=machine.usage,
            duration_ms=machine.active_ms(now),
            pause_reason=machine.paused,
            pending_tool_calls=pending_approvals(machine),
        ),
        errors=errors,
        timestamp=now,
    )


def pending_approvals(machine: TurnMachine) -> tuple[ToolCall, ...]:
    """The calls that a person has to decide on."""
    state = machine.state
    return tuple(p.call for p in state.deferred("approval")) if isinstance(state, WaitingTools) else ()
