"""Where a turn machine can stand, and the whole of what is stored of it.

A waiting state holds exactly what is needed to issue its effect again, identically. Nothing here grows with the
length of the thread: messages are in the store, and the machine only knows how many there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter

from agency.messages import Message, Usage
from agency.spending import Spent
from agency.turn.effects import CanceledBy, CheckpointKind, ModelCall, Notice, PendingCall
from agency.turn.outcomes import Asked, CallOutcome, TurnOutcome, WaitsFor
from agency.wire import Wire

RunStatus = Literal["registered", "running", "paused", "completed", "canceled", "error"]
"""`registered` is a thread that has not run yet."""

PauseReason = Literal["hitl", "subagent", "exhausted", "manual", "outside"]
"""What a paused run waits for: a person's decision, its children, more to spend, to be resumed by hand, or what settles
its calls from outside."""


class Limits(Wire):
    """What one run may use. None is no limit. Time counts while the run is not paused; tokens and cost count those of
    its children too, as soon as they have reported."""

    turns: int | None = Field(default=100, ge=1, lt=2**53)
    time_ms: int | None = Field(default=None, ge=1, lt=2**53)
    tokens: int | None = Field(default=None, ge=1, lt=2**53)
    cost_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class RunCeiling(Limits):
    """The most that any run of an agency may use, whatever says its own limits. None is no ceiling."""

    turns: int | None = Field(default=None, ge=1, lt=2**53)

    def over(self, limits: Limits) -> Limits:
        """The limits, none of them above the ceiling."""
        return Limits(**least(self, limits))


NO_CEILING = RunCeiling()


def least(one: Wire, other: Wire) -> dict[str, Any]:
    """Of two sets of the same numbers, the smaller of each; None is larger than any."""
    both = {name: (getattr(one, name), getattr(other, name)) for name in type(one).model_fields}
    return {name: min((each for each in pair if each is not None), default=None) for name, pair in both.items()}


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A model call that failed, or a model of the chain that was passed over."""

    model: str
    turn: int
    code: str
    message: str
    at: int
    request_id: str | None = None
    status: int | None = None
    """The provider's HTTP status, if it answered."""
    not_before: int = 0
    """Until then the provider asked not to be called."""


@dataclass(slots=True, kw_only=True)
class Preparing:
    state: Literal["preparing"] = "preparing"
    messages: tuple[Message, ...]


@dataclass(slots=True, kw_only=True)
class PrepareTurn:
    state: Literal["prepare_turn"] = "prepare_turn"


@dataclass(slots=True, kw_only=True)
class WaitingSurface:
    state: Literal["waiting_surface"] = "waiting_surface"
    effect: int


@dataclass(slots=True, kw_only=True)
class WaitingModel:
    state: Literal["waiting_model"] = "waiting_model"
    effect: int
    request: ModelCall


@dataclass(slots=True, kw_only=True)
class WaitingTools:
    """A call without an outcome is to be run; one with `Deferred` waits: for a person, a child, or its batch."""

    state: Literal["waiting_tools"] = "waiting_tools"
    effect: int
    calls: tuple[PendingCall, ...]
    outcomes: dict[str, CallOutcome] = field(default_factory=dict)

    def runnable(self) -> tuple[PendingCall, ...]:
        return tuple(call for call in self.calls if call.id not in self.outcomes)

    def deferred(self, *waits_for: WaitsFor) -> list[PendingCall]:
        return [
            call
            for call in self.calls
            if (outcome := self.outcomes.get(call.id)) is not None
            and outcome.status == "deferred"
            and outcome.waits_for in waits_for
        ]

    def asked(self, call_id: str) -> Asked:
        """What a person is asked about a call that waits for one."""
        outcome = self.outcomes[call_id]
        return (outcome.asked if outcome.status == "deferred" else None) or Asked()


@dataclass(slots=True, kw_only=True)
class WaitingCode:
    state: Literal["waiting_code"] = "waiting_code"
    effect: int
    code: str


@dataclass(slots=True, kw_only=True)
class WaitingCheckpoint:
    """`on_empty` is how the run ends if no message joins it here; None goes on with another turn either way."""

    state: Literal["waiting_checkpoint"] = "waiting_checkpoint"
    effect: int
    kind: CheckpointKind
    on_empty: TurnOutcome | None = None


@dataclass(slots=True, kw_only=True)
class RetryModel:
    retry: Literal["model"] = "model"
    request: ModelCall


@dataclass(slots=True, kw_only=True)
class RetryTools:
    retry: Literal["tools"] = "tools"
    calls: tuple[PendingCall, ...]
    outcomes: dict[str, CallOutcome]


@dataclass(slots=True, kw_only=True)
class WaitingSleep:
    state: Literal["waiting_sleep"] = "waiting_sleep"
    effect: int
    until: int
    then: Annotated[RetryModel | RetryTools, Field(discriminator="retry")]


@dataclass(slots=True, kw_only=True)
class Exhausted:
    """A limit was reached: paused until a person lifts it or cancels."""

    state: Literal["exhausted"] = "exhausted"
    code: str


@dataclass(slots=True, kw_only=True)
class Ended:
    state: Literal["ended"] = "ended"
    outcome: TurnOutcome


Waiting = WaitingSurface | WaitingModel | WaitingTools | WaitingCode | WaitingCheckpoint | WaitingSleep
State = Annotated[
    Preparing
    | PrepareTurn
    | WaitingSurface
    | WaitingModel
    | WaitingTools
    | WaitingCode
    | WaitingCheckpoint
    | WaitingSleep
    | Exhausted
    | Ended,
    Field(discriminator="state"),
]


@dataclass(slots=True, kw_only=True)
class TurnCheckpoint:
    """A turn machine, whole. `notices` are those that were not polled yet; an outstanding effect is in `state`.

    Aliases are the names in stored files, which never change.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(serialize_by_alias=True)

    run: int
    state: State
    notices: list[Notice] = field(default_factory=list)
    next_effect: int = 1
    next_message: int = 1
    position: int
    """How many messages the thread holds."""
    shown: int
    """How many of them the last model call has seen."""
    turn: int = 0
    turns_begun: Annotated[int, Field(alias="ticked")] = 0
    """The last turn whose beginning was announced."""
    usage: Usage = Usage()
    cost_usd: float | None = None
    """None is unknown, as it is for runs that were begun before costs were counted."""
    children: Spent | None = None
    """What its children had used when the last turn began, if anything."""
    model: str | None = None
    """The model that was asked last; the run stays with it while the chain has it."""
    attempts: int = 0
    """How often in a row the model, or every model of the chain, has failed."""
    failures: list[Attempt] = field(default_factory=list)
    """The latest model calls that failed."""
    cut: int = 0
    """Replies in a row that were cut off at the output limit."""
    said: str = ""
    """Their text."""
    overflows: int = 0
    """Requests in a row that were too large."""
    repairs: int = 0
    """Results in a row that did not fit the output's schema."""
    grace: bool = False
    """The turns are used up and this is the one more that the model gets to answer."""
    pause_reason: Annotated[PauseReason | None, Field(alias="paused")] = None
    """What the run waits for; None while it is at work."""
    pause_requested: Annotated[bool, Field(alias="hold")] = False
    """A person wants the run to pause: work that has begun may end, and nothing new begins."""
    limits: Limits = Limits()
    now: int
    active_since: int
    elapsed_ms: int = 0
    mode_state: JsonValue = None
    unknown_stops: int = 0
    """How many replies in a row have ended for a reason that is not known."""
    compacted: bool = False
    """Whether a request has left messages out, because the conversation is too long."""
    canceled_by: CanceledBy | None = None
    recoveries: int = 0
    """How often a process went away while it was at work."""
    tries: int = 0
    """Model calls in a row that came to nothing: they failed, or their process went away."""

    def dump(self) -> bytes:
        return _CHECKPOINT.dump_json(self, warnings="error")  # what is written must be readable

    @staticmethod
    def load(stored: bytes | str) -> TurnCheckpoint:
        return _CHECKPOINT.validate_json(stored)


_CHECKPOINT = TypeAdapter(TurnCheckpoint)
