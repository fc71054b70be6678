"""What the turn machine asks of its driver, and what the driver answers. Plain data, both ways.

An effect with an `id` waits for exactly one answer that carries the same id. `Emit`, `Progress`, `CancelModel` and
`Done` have none and want none.

Large because it is the whole vocabulary between the two.

These and the states are values: no code changes one after it was made. They are not frozen only because a turn makes
some thirty of them, and freezing costs more than the rest of making one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from pydantic import Field, JsonValue

from agency.events import NewEvent, RecoveryWhy
from agency.messages import Message, ToolCall, Usage
from agency.spending import Spent
from agency.turn.outcomes import CallOutcome, Decision, OnTimeout, Risk, Settled, TurnOutcome

if TYPE_CHECKING:
    from agency.turn.state import RunCeiling

CheckpointKind = Literal["after_work", "before_completion"]
DecidedBy = Literal["person", "timeout"]
ReplyStop = Literal["stop", "tool_use", "unknown", "output_limit", "context_overflow", "content_filter", "canceled"]
REPLY_STOPS = frozenset(get_args(ReplyStop))


@dataclass(slots=True, kw_only=True)
class SurfaceRef:
    """Names the prompt, tools and parameters that the driver keeps; the machine only passes the name on.

    When `model` fails and it may be tried again, the first of the `fallbacks` is asked, then the next. `skipped` were
    to be asked as well, but cannot do what is required.
    """

    digest: str
    model: str
    fallbacks: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def chain(self) -> tuple[str, ...]:
        return (self.model, *self.fallbacks)


@dataclass(slots=True, kw_only=True)
class ModelCall:
    """A model request by reference: the surface, and the thread's first `upto` messages.

    Messages are append-only, so this names the identical request for ever without holding it. Transient messages at or
    before `since` have been shown already and are left out. `final` is the grace turn: no tools are offered. `choice`
    is which model of the surface's chain is asked.
    """

    surface: SurfaceRef
    upto: int
    since: int
    final: bool = False
    choice: int = 0

    @property
    def model(self) -> str:
        return self.surface.chain[self.choice]


@dataclass(slots=True, kw_only=True)
class ModelReply:
    """What a model answered; made by providers."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    stop: ReplyStop = "stop"
    """Why it ended. After `unknown`, which is for reasons that a provider's adapter does not know, the run goes on."""
    usage: Usage = Usage()
    meta: JsonValue = None
    request_id: str | None = None
    """The provider's own name for the request."""


@dataclass(slots=True, kw_only=True)
class ModelFailure:
    """`room_made`: the request was too large, and a middleware has found something to leave out of the next. `usage`
    and its cost are what the call had used all the same."""

    code: str
    message: str
    retryable: bool = False
    retry_after_ms: int | None = None
    request_id: str | None = None
    status: int | None = None
    """The provider's HTTP status."""
    room_made: bool = False
    usage: Usage = Usage()
    cost_usd: float | None = 0.0


@dataclass(slots=True, kw_only=True)
class Output:
    """What a reply comes to that was to be the run's result: its value, or what is wrong with it.

    `call` is the call by which it was handed in, if it was handed in by one.
    """

    value: JsonValue = None
    code: str | None = None
    problem: str = ""
    call: str | None = None


@dataclass(slots=True, kw_only=True)
class PendingCall:
    """A call to run. `key` names it for ever, across retries and crashes; a person may have `approved` or edited it.
    `hidden` are arguments that people are not shown."""

    call: ToolCall
    key: str
    attempt: int = 1
    approved: bool = False
    edited: bool = False
    hidden: tuple[str, ...] = ()
    reruns: int = 0
    """How often it was begun once more because its process went away; its `attempt` stays the same for that."""

    @property
    def id(self) -> str:
        return self.call.id

    @property
    def begun(self) -> int:
        """Which execution of it this is."""
        return self.attempt + self.reruns


@dataclass(slots=True, kw_only=True)
class Ask:
    """A call that a person has to approve: why, how long there is for that, and what happens after that time."""

    risk: Risk | None = None
    note: str = ""
    timeout_ms: int | None = None
    on_timeout: OnTimeout = "deny"


@dataclass(slots=True, kw_only=True)
class CodeCall:
    """A tool call that executed code made, with how it ended. Its arguments are those that people are shown."""

    id: str
    name: str
    outcome: Settled
    args: JsonValue = None


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
class EmitWarning:
    """Tell the run's owner of something that the run has survived. `kind` is stable."""

    effect: Literal["warn"] = "warn"
    kind: str
    message: str


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
Notice = Annotated[Emit | EmitWarning | Progress | CancelModel | Done, Field(discriminator="effect")]
Effect = Request | Emit | EmitWarning | Progress | CancelModel | Done


# Answers to an outstanding effect. `at` is the driver's clock in milliseconds: the machine has none of its own.


@dataclass(slots=True, kw_only=True)
class SurfaceSynced:
    """`children` is what the run's children have used so far, and theirs, if anything. `compacted`: the request leaves
    messages out, because the conversation is too long. `ceiling` is what the run's limits may not be above, now."""

    id: int
    at: int
    surface: SurfaceRef
    children: Spent | None = None
    compacted: bool = False
    ceiling: RunCeiling | None = None


@dataclass(slots=True, kw_only=True)
class BudgetSpent:
    """The answer in place of a surface: the budget that the run shares with others is used up."""

    id: int
    at: int
    code: str


@dataclass(slots=True, kw_only=True)
class ModelReplied:
    """`ask` are the calls that a person has to approve before any call of this reply runs; `seen_by` the middleware
    that looked at the reply. `cost_usd` is None if the price is unknown. `output` is set if the run's result must fit
    a schema and this reply would be it; `refused` are calls that do not run, with what the model is told. `hidden` are
    arguments of calls that people are not shown. `first_token_ms` is when its text began, if it has any."""

    id: int
    at: int
    reply: ModelReply
    ask: dict[str, Ask] = field(default_factory=dict)
    seen_by: tuple[str, ...] = ()
    cost_usd: float | None = 0.0
    output: Output | None = None
    refused: dict[str, Settled] = field(default_factory=dict)
    hidden: dict[str, tuple[str, ...]] = field(default_factory=dict)
    first_token_ms: int | None = None


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
    """`stop` is how a middleware wants the run to end here."""

    id: int
    at: int
    messages: tuple[Message, ...] = ()
    stop: TurnOutcome | None = None


@dataclass(slots=True, kw_only=True)
class Woke:
    id: int
    at: int


# What comes from outside, whenever it comes.


@dataclass(slots=True, kw_only=True)
class CallSettled:
    """A call that was deferred to a child thread, or to the outside, has its result."""

    id: int
    at: int
    call_id: str
    outcome: Settled


@dataclass(slots=True, kw_only=True)
class CallsDecided:
    """Decisions on calls that wait for approval: a person's, or what counts as one when none has come in time."""

    id: int
    at: int
    decisions: dict[str, Decision]
    by: DecidedBy = "person"
    who: str | None = None
    """The person's name, if it is known."""


@dataclass(slots=True, kw_only=True)
class PauseRequested:
    """A person wants the run to pause: begin nothing new."""

    at: int


@dataclass(slots=True, kw_only=True)
class ResumeRequested:
    """A person ends the pause: go on."""

    at: int


@dataclass(slots=True, kw_only=True)
class Used:
    """What a model call has used that was stopped before its reply was whole."""

    usage: Usage = Usage()
    cost_usd: float | None = 0.0


@dataclass(slots=True, kw_only=True)
class ModelAsked:
    """A tool or a middleware, `by`, has asked a model aside: what that has used. `error` is the code and the message of
    a call that failed."""

    at: int
    took_ms: int
    model: str
    by: str
    call_id: str | None = None
    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    error: tuple[str, str] | None = None


@dataclass(slots=True, kw_only=True)
class RunRecovered:
    """The run was at work when its process went away, and goes on from its checkpoint. `last_at` is its last sign of
    life; `again` are the calls that had begun and not ended, and run once more."""

    at: int
    why: RecoveryWhy
    last_at: int
    activation: int
    again: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class RunInterrupted:
    """Leave what is being done and go on with these messages. Calls that have ended keep their results."""

    at: int
    messages: tuple[Message, ...]
    used: Used = field(default_factory=Used)


@dataclass(slots=True, kw_only=True)
class LimitsLifted:
    at: int
    turns: int | None = None
    time_ms: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None


CancelKind = Literal["person", "parent", "limit", "deletion", "fork"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CanceledBy:
    """Who canceled a run. `person`: by the name of the key, if that is known. `parent`: it needs no result any more;
    `limit`: it had given the child less time; both by the parent's id. `deletion`: the thread is being deleted. `fork`:
    the run goes on in the original, by that one's id."""

    kind: CancelKind = "person"
    name: str | None = None


@dataclass(slots=True, kw_only=True)
class RunCanceled:
    at: int
    by: CanceledBy = CanceledBy()
    used: Used = field(default_factory=Used)


@dataclass(slots=True, kw_only=True)
class RunAborted:
    """The driver cannot go on: a hook failed, or it met an error of its own. The machine has no use for the `stack`:
    the driver keeps it for people."""

    at: int
    reason: Literal["middleware_abort", "runtime_error"]
    code: str
    message: str
    stack: str = ""
    used: Used = field(default_factory=Used)


Answer = SurfaceSynced | BudgetSpent | ModelReplied | ModelFailed | ToolsAnswered | CodeRan | CheckpointTaken | Woke
Input = (
    Answer
    | CallSettled
    | CallsDecided
    | LimitsLifted
    | ModelAsked
    | PauseRequested
    | ResumeRequested
    | RunRecovered
    | RunInterrupted
    | RunCanceled
    | RunAborted
)
