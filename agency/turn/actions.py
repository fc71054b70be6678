"""What happens next in a run, as plain data: the parts of the machine decide, and `TurnMachine` applies, in order.

A part (`modes`, `replies`, `chain`, `limits`) reads the checkpoint, changes the counters that it owns, and returns a
list of these. It never changes the machine's state or hands out an effect by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from agency.events import NewEvent
from agency.messages import Message
from agency.turn.effects import CheckpointKind, ModelCall
from agency.turn.outcomes import TurnOutcome
from agency.turn.state import RetryModel, RetryTools


@dataclass(frozen=True, slots=True)
class Say:
    """Append messages to the thread."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Announce:
    """Emit an event."""

    event: NewEvent


@dataclass(frozen=True, slots=True)
class Warn:
    """Tell the run's owner of something, in an event and in the run's meta."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class AskModel:
    """Call a model with this request, as part of the current turn."""

    request: ModelCall


@dataclass(frozen=True, slots=True)
class SleepUntil:
    """Wait for the clock, then go on with `then`."""

    until: int
    then: RetryModel | RetryTools


@dataclass(frozen=True, slots=True)
class StartTools:
    """Run the calls of the reply."""


@dataclass(frozen=True, slots=True)
class StartCode:
    code: str


@dataclass(frozen=True, slots=True)
class StartCheckpoint:
    kind: CheckpointKind
    on_empty: TurnOutcome | None = None


@dataclass(frozen=True, slots=True)
class KeepState:
    """Remember this for the mode's next execution."""

    state: JsonValue


@dataclass(frozen=True, slots=True)
class RepeatTurn:
    """Begin the current turn once more: ask for its surface again, or pause if a limit is used up by now."""


@dataclass(frozen=True, slots=True)
class NextTurn:
    pass


@dataclass(frozen=True, slots=True)
class End:
    outcome: TurnOutcome


Action = (
    Say
    | Announce
    | Warn
    | AskModel
    | SleepUntil
    | StartTools
    | StartCode
    | StartCheckpoint
    | KeepState
    | RepeatTurn
    | NextTurn
    | End
)
