"""What clients see of a thread and its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from agency.approvals.pending import PendingToolCall, pending_approvals
from agency.children.parcels import PersonWait
from agency.clock import now_ms
from agency.define.hooks import RunEnd
from agency.define.options import RunOptions
from agency.define.tools import Tool
from agency.events import timestamp
from agency.messages import Message, Usage
from agency.metadata import ThreadMetadata
from agency.models.interface import ToolSpec
from agency.redaction import shown
from agency.spending import NOTHING_SPENT, Spent
from agency.store.records import StoredRun, StoredWarning
from agency.store.store import run_id
from agency.thread.run_facts import (
    Activity,
    Canceler,
    CapabilitiesUsed,
    ResultSource,
    RunWarning,
    WaitingCall,
    WaitingFor,
    activity_of,
    canceler_of,
    capabilities_used,
    source_of,
    waiting_calls_of,
    warnings_of,
)
from agency.turn.machine import TurnMachine
from agency.turn.outcomes import Stopped, result_of
from agency.turn.state import Attempt, PauseReason
from agency.turn.state import RunStatus as RunStatus
from agency.wire import Wire

AGENCY_BUDGET = "ERR_AGENCY_"
"""With which the codes of an agency's budgets begin."""


AcceptedStatus = RunStatus | Literal["queued"]


class Accepted(Wire):
    """The answer to a message: the run that it started or joined, or that it will start: `queued`."""

    run_id: str
    status: AcceptedStatus


CancelReason = Literal["user", "parent", "limit", "deletion", "fork"]
"""Who or what canceled a run, as `meta.canceled_by` tells it; a person is the `user`."""


class RunState(Wire):
    """`registered` is a thread that has not run yet; its `run_id` is empty. `reason` says what a paused run waits for
    (`PauseReason`), who canceled it (`CancelReason`), or the error that ended it; `next_alarm_at`, when the thread has
    something to do by itself, in milliseconds."""

    run_id: str = ""
    status: RunStatus = "registered"
    step: int = 0
    reason: str | None = None
    next_alarm_at: int | None = None


class ThreadState(Wire):
    """A thread and its latest run; messages and run are of one moment."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    thread: ThreadMetadata
    run: RunState
    model: str
    pending_tool_calls: tuple[PendingToolCall, ...] = ()
    """The calls that wait for a person."""
    unattended_tools: tuple[str, ...] = ()
    """The tools of medium and high risk that run without asking a person."""
    more: dict[str, JsonValue]
    """What the middleware add: todos, files, subagents, …"""


class FileInfo(Wire):
    path: str
    size: int
    """In bytes."""


class ErrorInfo(Wire):
    """Why a run ended or paused. `kind` is the class of the end, `exhausted` for a limit; `request_id` and
    `provider_status` are those of the model call that failed last, if that is why."""

    code: str
    message: str
    kind: str | None = None
    request_id: str | None = None
    provider_status: int | None = None


class Part(Wire):
    """A part of what was used."""

    tokens_used: Usage = Usage()
    cost_usd: float | None = 0.0


class ModelAttempt(Wire):
    """A model call that failed, or a model of the chain that was passed over."""

    model: str
    turn: int
    code: str
    message: str
    request_id: str | None = None
    at: str


class RunMeta(Wire):
    """`tokens_used` and `cost_usd` are those of the run and of its children, as far as these have reported; a cost of
    None is unknown. A run that a fork has from its original has used nothing there. `model` is the one that was asked
    last."""

    thread_id: str
    agent_type: str
    turns: int
    tokens_used: Usage
    cost_usd: float | None = None
    children: Part = Part()
    model: str | None = None
    attempts: tuple[ModelAttempt, ...] = ()
    duration_ms: int
    pause_reason: PauseReason | None = None
    pending_tool_calls: tuple[PendingToolCall, ...] = ()
    waiting_for: WaitingFor | None = None
    """The descendant that waits for a person while this run waits for its children."""
    waiting_calls: tuple[WaitingCall, ...] = ()
    """The calls that wait for the outside."""
    result_source: ResultSource | None = None
    canceled_by: Canceler | None = None
    activity: Activity = Activity()
    capabilities_used: CapabilitiesUsed = CapabilitiesUsed()
    warnings: tuple[RunWarning, ...] = ()
    options: RunOptions | None = None
    """What the run has in the place of the blueprint's, without secrets; None if it has nothing."""
    request: str = ""
    """How the latest message that a user wrote begins."""
    retry_of: str | None = None
    """The run that failed and that this one tries again."""
    recoveries: int = 0
    """How often a process died, or was stopped, while the run was at work."""


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
            return "paused" if machine.pause_reason else "running"
        case Stopped(reason="canceled"):
            return "canceled"
        case Stopped():
            return "error"
        case _:
            return "completed"


def run_state(run_id: str, machine: TurnMachine, next_alarm_at: int | None) -> RunState:
    return RunState(
        run_id=run_id,
        status=status_of(machine),
        step=machine.turn,
        reason=_reason(machine),
        next_alarm_at=next_alarm_at,
    )


def _reason(machine: TurnMachine) -> str | None:
    match machine.outcome:
        case Stopped(reason="canceled"):
            return _cancel_reason(machine)
        case Stopped(message=message):
            return message
        case _:
            return machine.pause_reason


def _cancel_reason(machine: TurnMachine) -> CancelReason:
    by = machine.canceled_by
    return "user" if by is None or by.kind == "person" else by.kind


def run_end(run_id: str, machine: TurnMachine) -> RunEnd:
    """How a run has ended, for the middleware."""
    outcome, status = machine.outcome, status_of(machine)
    if isinstance(outcome, Stopped):
        return RunEnd(run_id=run_id, status=status, result=None, code=outcome.code, message=outcome.message)
    return RunEnd(run_id=run_id, status=status, result=result_of(outcome))


@dataclass(frozen=True, slots=True)
class Beside:
    """What a run's envelope needs beside the run: its tools, what its children are and have used, the descendant that
    waits for a person, what it has warned of, when the thread last got anywhere, whether middleware make room, how the
    latest message of a user begins, and the run that it tries again."""

    tools: Mapping[str, Tool]
    children: Spent
    agents: Sequence[str]
    person_wait: PersonWait | None
    warnings: Sequence[StoredWarning]
    heartbeat_at: int
    compacting: bool
    request: str
    retry_of: int | None = None


def envelope(metadata: ThreadMetadata, run: StoredRun, beside: Beside) -> RunEnvelope:
    machine = TurnMachine(run.checkpoint)
    outcome = machine.outcome
    errors: tuple[ErrorInfo, ...] = ()
    if isinstance(outcome, Stopped):
        errors = (_error(outcome, machine.failures),)
    now = now_ms()
    own = NOTHING_SPENT if _is_originals(metadata, run) else machine.spent(now)
    children, tools = beside.children, beside.tools
    spent = own + children
    if machine.exhausted_by is not None:
        cost = "an unknown cost" if spent.cost_usd is None else f"{spent.cost_usd:g} US dollars"
        used = f"{own.turns} turns, {own.active_ms} ms, {spent.usage.total} tokens and {cost}"
        told = "" if machine.exhausted_by.startswith(AGENCY_BUDGET) else f"used are {used}; "
        message = f"{told}{_remedy(machine.exhausted_by)}"
        errors = (ErrorInfo(code=machine.exhausted_by, message=message, kind="exhausted"),)
    return RunEnvelope(
        run_id=run_id(metadata.id, run.n),
        status=status_of(machine),
        data=result_of(outcome),
        meta=RunMeta(
            thread_id=metadata.id,
            agent_type=metadata.agent_type,
            turns=own.turns,
            tokens_used=spent.usage,
            cost_usd=spent.cost_usd,
            children=Part(tokens_used=children.usage, cost_usd=children.cost_usd),
            model=machine.model,
            attempts=tuple(_attempt(failure) for failure in machine.failures),
            duration_ms=own.active_ms,
            pause_reason=machine.pause_reason,
            pending_tool_calls=pending_approvals(metadata.id, machine.state, tools),
            waiting_for=_waiting_for(machine, beside.person_wait),
            waiting_calls=waiting_calls_of(machine),
            result_source=source_of(outcome),
            canceled_by=canceler_of(machine),
            activity=activity_of(machine, max(beside.heartbeat_at, machine.now), compacting=beside.compacting),
            capabilities_used=capabilities_used(
                machine, beside.agents, beside.warnings, fits_schema=run.output is not None
            ),
            warnings=warnings_of(beside.warnings),
            options=_options(run.options),
            request=beside.request,
            retry_of=None if beside.retry_of is None else run_id(metadata.id, beside.retry_of),
            recoveries=machine.recoveries,
        ),
        errors=errors,
        timestamp=now,
    )


def _is_originals(metadata: ThreadMetadata, run: StoredRun) -> bool:
    """Whether a fork has the run from its original, which has used what it has cost."""
    return metadata.forked_from is not None and timestamp(run.started_at) < metadata.created_at


def _error(outcome: Stopped, failures: Sequence[Attempt]) -> ErrorInfo:
    last = next((each for each in reversed(failures) if each.code == outcome.code), None)
    return ErrorInfo(
        code=outcome.code,
        message=outcome.message,
        kind=outcome.reason,
        request_id=None if last is None else last.request_id,
        provider_status=None if last is None else last.status,
    )


def _waiting_for(machine: TurnMachine, wait: PersonWait | None) -> WaitingFor | None:
    if wait is None or wait.reason is None or machine.pause_reason != "subagent":
        return None
    return WaitingFor(thread_id=wait.thread_id, call_id=wait.call_id, reason=wait.reason)


def _options(stored: bytes | None) -> RunOptions | None:
    """The options of a run as people are shown them."""
    if stored is None:
        return None
    options = RunOptions.model_validate_json(stored)
    return options.model_copy(update={"options": {name: shown(each) for name, each in options.options.items()}})


def for_people(message: Message, tools: Mapping[str, Tool]) -> Message:
    """A message as people are shown it: without the secrets in its calls."""
    if not message.tool_calls:
        return message
    calls = tuple(
        call.model_copy(update={"args": shown(call.args, tool.hidden if tool else (), longest=None)})
        for call, tool in ((call, tools.get(call.name)) for call in message.tool_calls)
    )
    return message.model_copy(update={"tool_calls": calls})


def _remedy(code: str) -> str:
    match code:
        case "ERR_COST_UNKNOWN":
            return "a model's price is unknown, so a limit of cost cannot be kept: lift it, or give the price"
        case "ERR_AGENCY_COST_UNKNOWN":
            return "a model's price is unknown, so the agency's budget of money cannot be kept: take that budget away"
        case _ if code.startswith(AGENCY_BUDGET):
            return "the agency's budget is used up: raise it to go on"
        case _:
            return "lift the run's limit to go on"


def _attempt(failure: Attempt) -> ModelAttempt:
    return ModelAttempt(
        model=failure.model,
        turn=failure.turn,
        code=failure.code,
        message=failure.message,
        request_id=failure.request_id,
        at=timestamp(failure.at),
    )
