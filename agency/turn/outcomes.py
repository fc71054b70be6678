"""How calls and turns end: plain data, stored as it is and shown to the model as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, JsonValue

from agency.errors import FailureKind
from agency.messages import Image
from agency.wire import CHECKED

FailureSource = Literal["runtime", "tool", "middleware", "policy", "cancellation"]
Risk = Literal["low", "medium", "high"]
OnTimeout = Literal["deny", "approve"]
AskedKind = Literal["approval", "in_doubt"]
"""What a person is asked: whether a call may run, or what has come of one that was cut off."""
WaitsFor = Literal["approval", "child", "batch", "outside"]


@dataclass(frozen=True, slots=True)
class Finish:
    """A tool's way to end the run with this value as its result."""

    value: JsonValue
    control: Literal["finish"] = "finish"


@dataclass(frozen=True, slots=True)
class Handoff:
    """A tool's way to end the run by naming the thread that carries on."""

    thread_id: str
    control: Literal["handoff"] = "handoff"


@dataclass(frozen=True, slots=True)
class Fail:
    """A tool's way to end the run as an error."""

    message: str
    control: Literal["fail"] = "fail"


Control = Annotated[Finish | Handoff | Fail, Field(discriminator="control")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """`content` is what the tool returned: its text, or if it `is_json`, the JSON of what was no text."""

    status: Literal["success"] = "success"
    content: str
    control: Control | None = None
    images: tuple[Image, ...] = ()
    """What the model sees beside the text."""
    files: tuple[str, ...] = ()
    """The paths under which the agent keeps files that came with it."""
    is_json: bool = False

    @property
    def text(self) -> str:
        return self.content


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """`retry` is what the tool's policy says: `safe` asks the machine to sleep `after_ms` and call again."""

    status: Literal["failure"] = "failure"
    kind: FailureKind
    source: FailureSource = "tool"
    message: str
    retry: Literal["never", "safe", "exhausted"] = "never"
    after_ms: int = 0

    @property
    def text(self) -> str:
        return f"Error: {self.kind}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Canceled:
    status: Literal["canceled"] = "canceled"
    reason: str = "the run was canceled"

    @property
    def text(self) -> str:
        return f"Canceled: {self.reason}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Why a person is asked about a call, and what counts as the answer if there is none by the time `until`.

    A call that is `in_doubt` had begun when the process died, at `since`: it may have taken effect.
    """

    risk: Risk | None = None
    note: str = ""
    in_doubt: bool = False
    since: int | None = None
    until: int | None = None
    on_timeout: OnTimeout = "deny"

    @property
    def kind(self) -> AskedKind:
        return "in_doubt" if self.in_doubt else "approval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """No result yet. It waits for a person, for a child thread, for the rest of its batch to be let through, or for
    something outside: for what (`about`), and until when."""

    status: Literal["deferred"] = "deferred"
    waits_for: WaitsFor
    asked: Asked | None = None
    """What a person is asked, if it waits for one."""
    about: str = ""
    until: int | None = None


Settled = Annotated[Success | Failure | Canceled, Field(discriminator="status")]
CallOutcome = Annotated[Success | Failure | Canceled | Deferred, Field(discriminator="status")]


_GIVEN = ConfigDict(**CHECKED, extra="forbid")
"""A decision has nothing beside its fields: arguments with an `approve` would be taken for those that run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    """Run the call."""

    __pydantic_config__: ClassVar[ConfigDict] = _GIVEN

    decision: Literal["approve"] = "approve"


@dataclass(frozen=True, slots=True)
class Edit:
    """Run the call, with these arguments instead of the model's."""

    __pydantic_config__: ClassVar[ConfigDict] = _GIVEN

    args: dict[str, JsonValue]
    decision: Literal["edit"] = "edit"


@dataclass(frozen=True, slots=True)
class Deny:
    """Do not run the call, and tell the model why."""

    __pydantic_config__: ClassVar[ConfigDict] = _GIVEN

    reason: str = ""
    decision: Literal["deny"] = "deny"


@dataclass(frozen=True, slots=True)
class Respond:
    """Do not run the call: this is its result."""

    __pydantic_config__: ClassVar[ConfigDict] = _GIVEN

    content: str
    decision: Literal["respond"] = "respond"


@dataclass(frozen=True, slots=True, kw_only=True)
class Always:
    """Run the call, and from now on every call of this tool in this thread without asking."""

    __pydantic_config__: ClassVar[ConfigDict] = _GIVEN

    decision: Literal["always"] = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """Of a call in doubt: run it again, though it may have happened."""

    __pydantic_config__: ClassVar[ConfigDict] = _GIVEN

    decision: Literal["rerun"] = "rerun"


@dataclass(frozen=True, slots=True)
class Happened:
    """Of a call in doubt: it did happen, and this is its result. It does not run again."""

    __pydantic_config__: ClassVar[ConfigDict] = _GIVEN

    result: JsonValue = None
    decision: Literal["happened"] = "happened"


Decision = Annotated[
    Approve | Edit | Deny | Respond | Always | Rerun | Happened,
    Field(discriminator="decision"),
]


StopReason = Literal[
    "canceled",
    "incomplete",
    "max_turns",
    "tool_failure",
    "provider_error",
    "invalid_output",
    "middleware_abort",
    "runtime_error",
    "submitted_error",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The run has a result: the model's last words, the value they hold (if it must fit a schema), a tool's value,
    what submitted code handed in, or what a middleware ended it with."""

    end: Literal["finished"] = "finished"
    by: Literal["assistant_message", "structured_output", "tool_value", "submitted_value", "middleware"]
    value: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOff:
    end: Literal["handed_off"] = "handed_off"
    thread_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The run ended without a result; `code` is stable."""

    end: Literal["stopped"] = "stopped"
    reason: StopReason
    code: str
    message: str


TurnOutcome = Annotated[Finished | HandedOff | Stopped, Field(discriminator="end")]

CANCELED = Stopped(reason="canceled", code="ERR_CANCELED", message="the run was canceled")
DELETED = Stopped(reason="canceled", code="ERR_CANCELED", message="the thread was deleted")


def result_of(outcome: TurnOutcome | None) -> JsonValue:
    match outcome:
        case Finished(value=value):
            return value
        case HandedOff(thread_id=thread_id):
            return {"handoff": thread_id}
        case _:
            return None
