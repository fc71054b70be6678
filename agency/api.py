"""The bodies of the HTTP API, for the gateway and for its clients: what is sent, and what comes back in pages."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, JsonValue, StrictBool, StringConstraints, model_validator

from agency.blueprint import Isolation, Models, Name, ParentInfo, ThreadMetadata
from agency.events import Event
from agency.messages import MESSAGE_CHARS, Image, Message, ToolCall
from agency.models import Capability, ModelParams, ToolSpec
from agency.output import Schema
from agency.tenancy import AgencyInfo, BlueprintInfo, KeyInfo, KeyRole, ProviderInfo, ThreadSummary
from agency.thread.views import FileInfo, PendingToolCall, RunState
from agency.turn.modes import ModeName
from agency.turn.outcomes import Decision
from agency.turn.state import Limits
from agency.wire import Wire

Key = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
AgencyName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Files = Annotated[dict[str, str], Field(description="Text files by absolute path, put into the agent's filesystem.")]
OutputSchema = Annotated[
    Schema | None,
    Field(description="A JSON schema that the result must fit, in the place of the blueprint's, for a new run."),
]
IdempotencyKey = Annotated[
    Key | None, Field(description="Repeating a request with the same key gives the first answer and does nothing.")
]


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [fields]})


class Ok(Wire):
    ok: Literal[True] = True


# Agencies.


class NewAgency(Wire):
    model_config = _example(name="Bakery")

    name: AgencyName = "Untitled Agency"
    idempotency_key: IdempotencyKey = None


class AgencyChange(Wire):
    model_config = _example(name="The old bakery")

    name: AgencyName


class AgencyPage(Wire):
    agencies: tuple[AgencyInfo, ...]
    next: str | None = Field(default=None, description="`after` of the next page; null if this is all there is.")


# Blueprints.


class BlueprintChange(Wire):
    """An agent. Of one that is there, what is not given stays as it was."""

    model_config = _example(
        name="support", description="Answers customers.", prompt="You answer customers of a bakery.", tags=["default"]
    )

    name: Name
    description: str | None = None
    prompt: Annotated[str, Field(min_length=1)] | None = None
    tags: tuple[Name, ...] | None = None
    model: Annotated[
        Models | None,
        Field(description="A model as `provider:model`, or a chain: if one fails in a way that may pass, the next."),
    ] = None
    requires: Annotated[
        tuple[Capability, ...] | None, Field(description="Models that cannot do all of it are passed over.")
    ] = None
    params: ModelParams | None = None
    output_schema: Annotated[Schema | None, Field(description="What the result of a run must fit.")] = None
    config: dict[str, JsonValue] | None = None
    status: Literal["active", "draft", "disabled"] | None = None
    limits: Limits | None = None
    mode: ModeName | None = None
    isolation: Isolation | None = None

    @property
    def fields(self) -> dict[str, JsonValue]:
        return self.model_dump(mode="json", by_alias=False, exclude_unset=True)


class BlueprintPage(Wire):
    blueprints: tuple[BlueprintInfo, ...]
    next: str | None = Field(default=None, description="`after` of the next page; null on the last.")


# Threads.


IMAGES_MOST = 20


class ChatMessage(Wire):
    """A message from outside: text, or images, which are a user's, or both."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [{"required": ["content"]}, {"required": ["images"]}],
            "examples": [
                {"role": "user", "content": "Where is order 7?"},
                {"content": "What is this?", "images": [{"url": "https://example.org/cake.png"}]},
            ],
        }
    )

    role: Literal["user", "system"] = "user"
    content: Annotated[str, Field(max_length=MESSAGE_CHARS)] = ""
    images: Annotated[tuple[Image, ...], Field(max_length=IMAGES_MOST)] = ()

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.content or self.images):
            raise ValueError("a message has `content` or `images`")
        return self


Messages = Annotated[tuple[ChatMessage, ...], Field(max_length=100)]


class NewThread(Wire):
    model_config = _example(agentType="support", messages=[{"role": "user", "content": "Where is order 7?"}])

    agent_type: Annotated[str, Field(description="The name of a blueprint.")]
    messages: Annotated[Messages, Field(description="What its first run begins with; without any, it waits.")] = ()
    files: Files = {}
    limits: Limits | None = None
    output_schema: OutputSchema = None
    idempotency_key: IdempotencyKey = None


class Invocation(Wire):
    model_config = _example(messages=[{"role": "user", "content": "And order 8?"}], idempotencyKey="order-8")

    messages: Annotated[Messages, Field(min_length=1)]
    files: Files = {}
    limits: Annotated[Limits | None, Field(description="In the place of the blueprint's, for a new run.")] = None
    output_schema: OutputSchema = None
    idempotency_key: IdempotencyKey = None
    thread_id: Annotated[str | None, Field(description="If given, it must be the thread of the address.")] = None
    agent_type: Annotated[str | None, Field(description="If given, it must be the thread's agent.")] = None


def as_messages(given: tuple[ChatMessage, ...]) -> tuple[Message, ...]:
    return tuple(Message(role=each.role, content=each.content, images=each.images) for each in given)


class ThreadPage(Wire):
    agents: tuple[ThreadSummary, ...]
    next: int | None = Field(default=None, description="`after` of the next page; null on the last.")


class AgentState(Wire):
    """What the agent has before it. Middleware add fields of their own, as `todos`, `files` and `subagents`."""

    model_config = ConfigDict(extra="allow")

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    thread: ThreadMetadata
    thread_id: str
    parent: ParentInfo | None
    agent_type: str
    model: str


class StateAndRun(Wire):
    state: AgentState
    run: RunState


class FileList(Wire):
    files: tuple[FileInfo, ...]


class EventPage(Wire):
    events: tuple[Event, ...]
    next: int | None = Field(default=None, description="`after` of the next page; null if this is all there is so far.")


class AgencyEvent(Event):
    """An event of one of an agency's threads, and its place among all of them."""

    cursor: int


class AgencyEventPage(Wire):
    events: tuple[AgencyEvent, ...]
    next: int | None = Field(default=None, description="`after` of the next page; null if this is all there is so far.")


# What waits for a person.


class Answer(Wire):
    """Either `approved` for all calls that wait, or `decisions` by the calls' ids."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["approved"]}, {"required": ["decisions"]}],
            "examples": [
                {"approved": True},
                {"approved": False, "reason": "too much"},
                {"decisions": {"call_1": {"decision": "edit", "args": {"cents": 500}}}},
            ],
        }
    )

    approved: StrictBool | None = None
    reason: Annotated[str, Field(max_length=10_000, description="Told to the model if the calls are denied.")] = ""
    modified_tool_calls: Annotated[
        tuple[ToolCall, ...],
        Field(description="Calls that are to run with other arguments; the others run as they are."),
    ] = ()
    decisions: Annotated[dict[str, Decision] | None, Field(min_length=1)] = None
    idempotency_key: IdempotencyKey = None

    @model_validator(mode="after")
    def _one_of_the_two(self) -> Self:
        if (self.approved is None) == (self.decisions is None):
            raise ValueError("say either `approved` or `decisions`")
        if self.modified_tool_calls and not self.approved:
            raise ValueError("`modifiedToolCalls` go with `approved: true`")
        if self.reason and self.approved is not False:
            raise ValueError("a `reason` goes with `approved: false`; a decision has its own")
        return self


class Approval(Wire):
    """A thread that waits for a person, and the calls it waits with."""

    thread_id: str
    agent_type: str
    run_id: str
    since: str
    calls: tuple[PendingToolCall, ...]


class ApprovalPage(Wire):
    approvals: tuple[Approval, ...]
    next: int | None = Field(default=None, description="`after` of the next page; null on the last.")


class NewLimits(Wire):
    """Under which a run that has used up a limit goes on."""

    model_config = _example(tokens=200_000)

    turns: Annotated[int, Field(ge=1, lt=2**53)] | None = None
    time_ms: Annotated[int, Field(ge=1, lt=2**53)] | None = None
    tokens: Annotated[int, Field(ge=1, lt=2**53)] | None = None
    cost_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


# Where its models are.


class ProviderPage(Wire):
    providers: tuple[ProviderInfo, ...]
    next: str | None = Field(default=None, description="`after` of the next page; null on the last.")


# Who may come in.


class KeyWanted(Wire):
    model_config = _example(name="the shop's web server", role="operator")

    name: AgencyName
    role: KeyRole


class KeyPage(Wire):
    keys: tuple[KeyInfo, ...]
    next: str | None = Field(default=None, description="`after` of the next page; null on the last.")


class Ticket(Wire):
    ticket: str = Field(description="To be sent as `?ticket=` with one request, soon.")
    expires_at: str


class Health(Wire):
    status: Literal["ready"] = "ready"
    hosts: int
