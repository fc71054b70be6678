"""What the turn machine asks of its driver, and what the driver answers. Plain data, both ways.

An effect with an `id` waits for exactly one answer that carries the same id. `Emit`, `Progress`, `CancelModel` and
`Done` have none and want none.

These and the states are values: nobody changes one. They are not frozen only because a turn makes some thirty of them,
and freezing costs more than the rest of making one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pydantic import Field, JsonValue

from agency.events import NewEvent
from agency.messages import Message, ToolCall, Usage
from agency.turn.outcomes import CallOutcome, Decision, Settled, TurnOutcome

CheckpointKind = Literal["after_work", "before_completion"]
ReplyStop = Literal["stop", "tool_use", "unknown", "output_limit", "context_overflow", "content_filter", "canceled"]
REPLY_STOPS = frozenset(get_args(ReplyStop))


@dataclass(slots=True, kw_only=True)
class SurfaceRef:
    """Names the prompt, tools and parameters that the driver keeps; the machine only passes the name on."""

    digest: str
    model: str


@dataclass(slots=True, kw_only=True)
class ModelCall:
    """A model request by reference: the surface, and the thread's first `upto` messages.

    Messages are append-only, so this names the identical request for ever without holding it. Transient messages at or
    before `since` have been shown already and are left out. `final` is the grace turn: no tools are offered.
    """

    surface: SurfaceRef
    upto: int
    since: int
    final: bool = False


@dataclass(slots=True, kw_only=True)
class ModelReply:
    """What a model answered; made by providers."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    stop: ReplyStop = "unknown"
    usage: Usage = Usage()
    meta: JsonValue = None


@dataclass(slots=True, kw_only=True)
class ModelFailure:
    code: str
    message: str
    retryable: bool = False
    retry_after_ms: int | None = None


@dataclass(slots=True, kw_only=True)
class PendingCall:
    """A call to run. `key` names it for ever, across retries and crashes; a person may have `approved` or edited it."""

    call: ToolCall
    key: str
    attempt: int = 1
    approved: bool = False
    edited: bool = False

    @property
    def id(self) -> str:
        return self.call.id


@dataclass(slots=True, kw_only=True)
class CodeCall:
    """A tool call that executed code made, with how it ended."""

    id: str
    name: str
    outcome: Settled


# Effects


@dataclass(slots=True, kw_only=True)
class SyncSurface:
    effect: Literal["sync_surface"] = "sync_surface"
    id: int
    turn: int


@dataclass(slots=True, kw_only=True)
class CallModel:
    effect: Literal["call_model"] = "call_model"
    id: int
    request: ModelCall


@dataclass(slots=True, kw_only=True)
class CallTools:
    effect: Literal["call_tools"] = "call_tools"
    id: int
    calls: tuple[PendingCall, ...]


@dataclass(slots=True, kw_only=True)
class ExecCode:
    effect: Literal["exec_code"] = "exec_code"
    id: int
    code: str
    state: JsonValue = None


@dataclass(slots=True, kw_only=True)
class Checkpoint:
    effect: Literal["checkpoint"] = "checkpoint"
    id: int
    kind: CheckpointKind


@dataclass(slots=True, kw_only=True)
class Sleep:
    effect: Literal["sleep"] = "sleep"
    id: int
    until: int


@dataclass(slots=True, kw_only=True)
class Emit:
    effect: Literal["emit"] = "emit"
    event: NewEvent


@dataclass(slots=True, kw_only=True)
class Progress:
    """These messages are now part of the thread; store them before going on."""

    effect: Literal["progress"] = "progress"
    messages: tuple[Message, ...]


@dataclass(slots=True, kw_only=True)
class CancelModel:
    effect: Literal["cancel_model"] = "cancel_model"
    call: int


@dataclass(slots=True, kw_only=True)
class Done:
    effect: Literal["done"] = "done"
    outcome: TurnOutcome


Request = SyncSurface | CallModel | CallTools | ExecCode | Checkpoint | Sleep
Notice = Annotated[Emit | Progress | CancelModel | Done, Field(discriminator="effect")]
Effect = Request | Emit | Progress | CancelModel | Done


# Answers to an outstanding effect. `at` is the driver's clock in milliseconds: the machine has none of its own.


@dataclass(slots=True, kw_only=True)
class SurfaceSynced:
    id: int
    at: int
    surface: SurfaceRef


@dataclass(slots=True, kw_only=True)
class ModelReplied:
    """`ask` lists the calls that a person has to approve before any call of this reply runs; `seen_by` the middleware
    that looked at the reply."""

    id: int
    at: int
    reply: ModelReply
    ask: tuple[str, ...] = ()
    seen_by: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class ModelFailed:
    id: int
    at: int
    failure: ModelFailure


@dataclass(slots=True, kw_only=True)
class ToolsAnswered:
    """One outcome for each call of the effect, no more and no fewer."""

    id: int
    at: int
    outcomes: dict[str, CallOutcome]


@dataclass(slots=True, kw_only=True)
class CodeRan:
    """`submitted` ends the run with a value, `error` with a message; `state` is handed to the next execution."""

    id: int
    at: int
    output: str
    calls: tuple[CodeCall, ...] = ()
    state: JsonValue = None
    submitted: tuple[JsonValue] | None = None
    error: str | None = None


@dataclass(slots=True, kw_only=True)
class CheckpointTaken:
    id: int
    at: int
    messages: tuple[Message, ...] = ()


@dataclass(slots=True, kw_only=True)
class Woke:
    id: int
    at: int


# What comes from outside, whenever it comes.


@dataclass(slots=True, kw_only=True)
class CallSettled:
    """A call that was deferred to a child thread has its result."""

    id: int
    at: int
    call_id: str
    outcome: Settled


@dataclass(slots=True, kw_only=True)
class CallsDecided:
    """A person's decisions on calls that wait for approval."""

    id: int
    at: int
    decisions: dict[str, Decision]


@dataclass(slots=True, kw_only=True)
class LimitsLifted:
    at: int
    turns: int | None = None
    time_ms: int | None = None
    tokens: int | None = None


@dataclass(slots=True, kw_only=True)
class RunCanceled:
    at: int


@dataclass(slots=True, kw_only=True)
class RunAborted:
    """The driver cannot go on: a hook failed, or it met an error of its own."""

    at: int
    reason: Literal["middleware_abort", "runtime_error"]
    code: str
    message: str


Answer = SurfaceSynced | ModelReplied | ModelFailed | ToolsAnswered | CodeRan | CheckpointTaken | Woke
Input = Answer | CallSettled | CallsDecided | LimitsLifted | RunCanceled | RunAborted
