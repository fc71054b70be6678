"""The bodies of the HTTP API: what clients send, and the pages that come back. Gateway and client share them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    field_validator,
    model_validator,
)

from agency.api.body import AgencyName, Body, EmptyIsNone, IdempotencyKey, example
from agency.api.conversation import Files, FirstMessages, Messages
from agency.api.tenancy import AgencyInfo, BlueprintInfo, KeyInfo, KeyRole, ProviderInfo, ThreadSummary
from agency.approvals.pending import PendingToolCall
from agency.define.blueprint import Blueprint, Isolation, Models, Name
from agency.define.options import RunOptions
from agency.events import Event
from agency.json_schema import Schema
from agency.messages import Message, ToolCall
from agency.metadata import ParentInfo, ThreadMetadata
from agency.models.interface import Capability, ModelParams, ToolSpec
from agency.store.draft import When
from agency.thread.model_records import ModelCallSummary
from agency.thread.traces import TraceRecord
from agency.thread.views import FileInfo, RunState
from agency.turn.modes import ModeName
from agency.turn.outcomes import Decision
from agency.turn.state import Limits
from agency.wire import Wire

OutputSchema = Annotated[
    Schema | None,
    Field(description="A JSON schema for the result. It replaces the blueprint's for a run that this starts."),
]


Ignored = Annotated[JsonValue, Field(description="Ignored.")]


class Ok(Wire):
    ok: Literal[True] = True


# Agencies.


UNTITLED = "Untitled Agency"


class NewAgency(Body):
    model_config = example(name="Bakery")

    name: AgencyName = UNTITLED
    idempotency_key: IdempotencyKey = None

    @field_validator("name", mode="before")
    @classmethod
    def _blank_is_not_given(cls, given: object) -> object:
        return UNTITLED if isinstance(given, str) and not given.strip() else given


class AgencyChange(Body):
    model_config = example(name="The old bakery")

    name: AgencyName


class AgencyPage(Wire):
    agencies: tuple[AgencyInfo, ...]
    next: str | None = Field(default=None, description="`after` of the next page; null on the last.")


# Blueprints.


class BlueprintChange(Body):
    """A new blueprint, or a change of one: fields that are left out keep their values. What the API says about a
    blueprint beside its fields is ignored, so that an answer can be sent back."""

    model_config = example(
        name="support", description="Answers customers.", prompt="You answer customers of a bakery.", tags=["default"]
    )

    changes = Blueprint

    name: Name
    description: str | None = None
    prompt: Annotated[str, Field(min_length=1)] | None = None
    tags: tuple[Name, ...] | None = None
    tools: Annotated[tuple[Name, ...] | None, Field(description="Tools that it gets besides, by name.")] = None
    middleware: Annotated[tuple[Name, ...] | None, Field(description="Middleware that it gets besides, by name.")] = (
        None
    )
    model: Annotated[
        Models | None,
        Field(
            description="A model as `provider:model`, or without the provider if that is the default model's; or a "
            "chain of models: if one fails temporarily, the next is used."
        ),
    ] = None
    requires: Annotated[
        tuple[Capability, ...] | None, Field(description="Models without all of these capabilities are skipped.")
    ] = None
    params: ModelParams | None = None
    output_schema: Annotated[Schema | None, Field(description="A JSON schema for the result of a run.")] = None
    config: dict[str, JsonValue] | None = None
    status: Literal["active", "draft", "disabled"] | None = None
    limits: Limits | None = None
    mode: ModeName | None = None
    isolation: Isolation | None = None
    unattended: Annotated[
        bool | None,
        Field(
            description="Whether tools of medium and high risk run without a person. If not, it needs the tag `hitl`."
        ),
    ] = None
    ok: Ignored = None
    source: Ignored = None
    warnings: Ignored = None
    unattended_tools: Ignored = None
    created_at: Ignored = None
    updated_at: Ignored = None

    @property
    def fields(self) -> dict[str, JsonValue]:
        ignored = {"ok", "source", "warnings", "unattended_tools", "created_at", "updated_at"}
        return self.model_dump(mode="json", by_alias=False, exclude_unset=True, exclude=ignored)


class SavedBlueprint(BlueprintInfo):
    ok: Literal[True] = True


class BlueprintPage(Wire):
    blueprints: tuple[BlueprintInfo, ...]
    next: str | None = Field(default=None, description="`after` of the next page; null on the last.")


# Threads.


class NewThread(Body, RunOptions):
    model_config = example(agentType="support", messages=[{"role": "user", "content": "Where is order 7?"}])

    agent_type: Annotated[str, Field(description="The name of a blueprint.")]
    messages: FirstMessages = ()
    files: Files = {}
    limits: Limits | None = None
    output_schema: OutputSchema = None
    idempotency_key: IdempotencyKey = None


class NewFork(Body, RunOptions):
    """A new thread that begins as another one was: after an event, before a user's message, or as it is now."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": {"required": ["afterSeq", "beforeMessage"]},
            "examples": [
                {"afterSeq": 12},
                {"beforeMessage": "m2.1", "messages": [{"role": "user", "content": "And order 9?"}]},
            ],
        }
    )

    after_seq: Annotated[int | None, Field(ge=1, lt=2**63, description="The last event of the fork.")] = None
    before_message: Annotated[
        str | None,
        Field(min_length=1, max_length=200, description="The id of the first message that the fork leaves out."),
    ] = None
    messages: FirstMessages = ()
    idempotency_key: IdempotencyKey = None

    @model_validator(mode="after")
    def _one_of_the_two(self) -> Self:
        if self.after_seq is not None and self.before_message is not None:
            raise ValueError("say `afterSeq` or `beforeMessage`, not both")
        return self


class InvokeBody(Body, RunOptions):
    model_config = example(messages=[{"role": "user", "content": "And order 8?"}], idempotencyKey="order-8")

    messages: Annotated[
        Messages, Field(description="Without any, a run starts on the conversation as it is, or continues.")
    ] = ()
    files: Files = {}
    limits: Annotated[Limits | None, Field(description="For a run that this starts; else the blueprint's.")] = None
    output_schema: OutputSchema = None
    when: Annotated[
        When,
        Field(
            description="During a run, the messages join it at its next turn, start the run after it, or interrupt it."
        ),
    ] = "next_step"
    idempotency_key: IdempotencyKey = None
    thread_id: Annotated[
        str | None, EmptyIsNone, Field(description="If given, it must be the thread of the address.")
    ] = None
    agent_type: Annotated[str | None, EmptyIsNone, Field(description="If given, it must be the thread's agent.")] = None
    parent: Ignored = None


class ThreadPage(Wire):
    agents: tuple[ThreadSummary, ...]
    next: int | None = Field(default=None, description="`after` of the next page; null on the last.")


class ThreadChange(Body):
    """What a person calls a thread."""

    model_config = example(title="The order of the Petersens")

    title: Annotated[
        str | None, Field(max_length=200, description="Null or blank gives the thread its own title back.")
    ]


class AgentState(Wire):
    """The state of an agent. Middleware add fields of their own, such as `todos`, `files` and `subagents`."""

    model_config = ConfigDict(extra="allow")

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    thread: ThreadMetadata
    thread_id: str
    parent: ParentInfo | None
    agent_type: str
    model: str
    pending_tool_calls: tuple[PendingToolCall, ...] | None = None
    unattended_tools: tuple[str, ...] = ()


class StateAndRun(Wire):
    state: AgentState
    run: RunState


class FileList(Wire):
    files: tuple[FileInfo, ...]


class EventPage(Wire):
    events: tuple[Event, ...]
    next: int | None = Field(default=None, description="`after` of the next page; null if this is all there is so far.")


class TraceList(Wire):
    traces: tuple[TraceRecord, ...]


class ServerLogLine(Wire):
    """A line that a host or the directory has logged: what it is about, and the traceback if it tells of an error."""

    n: int = 0
    ts: str
    level: str
    logger: str
    event: str
    host: str
    agency: str | None = None
    thread: str | None = None
    call: str | None = None
    tool: str | None = None
    exception: str | None = None


class ServerLog(Wire):
    lines: tuple[ServerLogLine, ...]
    next: int = Field(description="`after` of the next request.")


class ModelCallList(Wire):
    model_calls: tuple[ModelCallSummary, ...]


class AgencyEvent(Event):
    """An event of one of an agency's threads, and its place among all of them."""

    cursor: int


class AgencyEventPage(Wire):
    events: tuple[AgencyEvent, ...]
    next: int | None = Field(default=None, description="`after` of the next page; null if this is all there is so far.")


# Approvals.


Decisions = Annotated[
    dict[str, Decision],
    Field(
        min_length=1,
        description="The decision on each call: `approve`, `edit` (other `args`), `deny` (with a `reason`), "
        "`respond` (`content` is the result, the tool does not run) or `always` (approve, this tool from now on too). "
        "Of a call in doubt: `rerun`, `happened` (with its `result`), `deny` or `respond`.",
    ),
]


_TOLD = frozenset(
    name
    for key, field in PendingToolCall.model_fields.items()
    if key not in ToolCall.model_fields
    for name in (key, field.alias)
)
"""What `pendingToolCalls` say about a call beside the call."""


def _call_alone(given: object) -> object:
    return {name: value for name, value in given.items() if name not in _TOLD} if isinstance(given, dict) else given


class ApproveBody(Body):
    """Either `approved` for all calls that wait, but for those in doubt, or `decisions` by the calls' ids, or by their
    `approvalId`s, which name them with exactly the arguments that were shown."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["approved"]}, {"required": ["decisions"]}],
            "examples": [
                {"approved": True},
                {"approved": False, "reason": "too much"},
                {"decisions": {"call_1": {"decision": "edit", "args": {"cents": 500}}}},
                {"decisions": {"thr_7d1f:9a2c": {"decision": "respond", "content": "The order was refunded by hand."}}},
                {"decisions": {"thr_7d1f:41be": {"decision": "happened", "result": {"refunded": 500}}}},
            ],
        }
    )

    approved: StrictBool | None = None
    reason: Annotated[str, Field(max_length=10_000, description="The model reads it if the calls are denied.")] = ""
    modified_tool_calls: Annotated[
        tuple[ToolCall, ...],
        Field(
            description="Calls to run with other arguments. The other calls run as they are. A call from "
            "`pendingToolCalls` can be sent as it is: what people were told about it counts for nothing."
        ),
    ] = ()
    decisions: Decisions | None = None
    idempotency_key: IdempotencyKey = None

    @field_validator("modified_tool_calls", mode="before")
    @classmethod
    def _only_the_calls(cls, given: object) -> object:
        return [_call_alone(call) for call in given] if isinstance(given, list) else given

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
    """A thread that waits for a person: with `calls` to decide on, or because a `limit` is used up, which `code` names.
    `parent_id` is the thread that started it."""

    thread_id: str
    agent_type: str
    title: str | None = Field(default=None, description="The thread's.")
    request: str = Field(default="", description="How the latest message that a user wrote to the thread begins.")
    run_id: str
    since: str
    kind: Literal["calls", "limit"] = "calls"
    parent_id: str | None = None
    calls: tuple[PendingToolCall, ...] = ()
    code: str | None = None


class ApprovalPage(Wire):
    approvals: tuple[Approval, ...]
    next: int | None = Field(default=None, description="`after` of the next page; null on the last.")


class DecideBody(Body):
    """Decisions on calls of any of the agency's threads, by the calls' `approvalId`s."""

    model_config = example(decisions={"thr_7d1f:9a2c": {"decision": "approve"}})

    decisions: Decisions
    idempotency_key: IdempotencyKey = None


class RefusedDecision(Wire):
    approval_id: str
    code: str
    message: str


class DecisionResults(Wire):
    """The decisions that were accepted, and those that came too late or do not fit their call."""

    answered: tuple[str, ...]
    refused: tuple[RefusedDecision, ...] = ()


class NewLimits(Body):
    """New limits for a run that has used one up."""

    model_config = example(tokens=200_000)

    turns: Annotated[int, Field(ge=1, lt=2**53)] | None = None
    time_ms: Annotated[int, Field(ge=1, lt=2**53)] | None = None
    tokens: Annotated[int, Field(ge=1, lt=2**53)] | None = None
    cost_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


# Providers.


class ProviderPage(Wire):
    providers: tuple[ProviderInfo, ...]
    next: str | None = Field(default=None, description="`after` of the next page; null on the last.")


# Keys and tickets.


class KeyWanted(Body):
    model_config = example(name="the shop's web server", role="operator")

    name: AgencyName
    role: KeyRole


class KeyPage(Wire):
    keys: tuple[KeyInfo, ...]
    next: str | None = Field(default=None, description="`after` of the next page; null on the last.")


class Ticket(Wire):
    ticket: str = Field(description="Send it as `?ticket=` with one request.")
    expires_at: str


class Health(Wire):
    status: Literal["ready"] = "ready"
    hosts: int
