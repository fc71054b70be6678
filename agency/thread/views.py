"""What clients see of a thread and its runs."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from agency.blueprint import ThreadMetadata
from agency.clock import now_ms
from agency.messages import Message, ToolCall, Usage
from agency.models import ToolSpec
from agency.store.records import StoredRun
from agency.store.store import run_id
from agency.tools import Risk, Tool
from agency.turn.machine import TurnMachine
from agency.turn.outcomes import CallOutcome, Deferred, Finished, HandedOff, Stopped, TurnOutcome
from agency.turn.state import PauseReason, TurnCheckpoint, WaitingTools
from agency.turn.state import RunStatus as RunStatus
from agency.wire import Wire


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


class PendingToolCall(ToolCall):
    """A call that waits for a person, with what the person should know."""

    risk: Risk = "low"
    note: str = ""


class RunMeta(Wire):
    thread_id: str
    agent_type: str
    turns: int
    tokens_used: Usage
    cost_usd: float | None = None
    """None is unknown."""
    duration_ms: int
    pause_reason: PauseReason | None = None
    pending_tool_calls: tuple[PendingToolCall, ...] = ()


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


def envelope(metadata: ThreadMetadata, run: StoredRun, tools: Mapping[str, Tool]) -> RunEnvelope:
    machine = TurnMachine(TurnCheckpoint.load(run.machine))
    outcome = machine.outcome
    errors: tuple[ErrorInfo, ...] = ()
    if isinstance(outcome, Stopped):
        errors = (ErrorInfo(code=outcome.code, message=outcome.message),)
    elif machine.exhausted_by is not None:
        used = f"{machine.usage.total} tokens, {machine.active_ms(now_ms())} ms"
        errors = (ErrorInfo(code=machine.exhausted_by, message=f"the run has used {used}; lift its limit to go on"),)
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
            pending_tool_calls=pending_approvals(machine, tools),
        ),
        errors=errors,
        timestamp=now,
    )


def pending_approvals(machine: TurnMachine, tools: Mapping[str, Tool]) -> tuple[PendingToolCall, ...]:
    """The calls that a person has to decide on."""
    state = machine.state
    if not isinstance(state, WaitingTools):
        return ()
    return tuple(_pending(p.call, state.outcomes[p.id], tools.get(p.call.name)) for p in state.deferred("approval"))


def _pending(call: ToolCall, outcome: CallOutcome, tool: Tool | None) -> PendingToolCall:
    return PendingToolCall(
        id=call.id,
        name=call.name,
        args=call.args,
        risk=tool.risk if tool is not None else "high",
        note=outcome.note if isinstance(outcome, Deferred) else "",
    )
