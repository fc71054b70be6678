"""Everything that can be asked of a gateway, once for both clients: each function makes a request and does no I/O.

The first parameter is the path of what it is asked of: the gateway's own (empty), an agency's or a thread's. Whatever
changes something carries a key of its own where the API takes one, so that it can be repeated when its answer got lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from pydantic import JsonValue
from typing_extensions import Unpack

from agency.api import bodies as api
from agency.api.tenancy import (
    AgencyInfo,
    AgencyUsage,
    BlueprintInfo,
    Budget,
    KeyInfo,
    KeyRole,
    NewKey,
    ProviderInfo,
    ThreadSummary,
)
from agency.approvals.rules import Policy
from agency.client.request import (
    Feed,
    Listing,
    Page,
    Request,
    body,
    delete,
    encoded,
    get,
    get_bytes,
    key,
    listing,
    order,
    post,
    put_bytes,
    segment,
)
from agency.define.blueprint import Isolation, ModelChoice
from agency.define.output import OutputType, as_schema
from agency.errors import NotFound, WrongState
from agency.events import Event
from agency.messages import Message
from agency.metadata import ThreadMetadata
from agency.models.interface import Capability, ModelParams
from agency.models.providers.entry import Provider
from agency.schedules.occurrences import Kind
from agency.schedules.schedule import CatchUp, Overlap, ScheduleInfo, SchedulePage, ScheduleRun, ScheduleRunPage
from agency.store.draft import When
from agency.thread.views import Accepted, FileInfo, RunEnvelope, RunStatus
from agency.turn.modes import ModeName
from agency.turn.outcomes import Decision
from agency.turn.state import Limits

Messages = str | Message | Sequence[Message]

FOLLOW_SECONDS = 60.0
"""Without any connection for so long, who follows events is told."""


class BlueprintFields(TypedDict, total=False):
    """What can be said of an agent. Of one that is there, what is not given stays as it was."""

    description: str
    prompt: str
    tags: Sequence[str]
    model: str | Sequence[str | ModelChoice] | None
    requires: Sequence[Capability]
    params: ModelParams
    output_schema: Mapping[str, JsonValue] | None
    config: Mapping[str, JsonValue]
    status: Literal["active", "draft", "disabled"]
    limits: Limits
    mode: ModeName
    isolation: Isolation


class ScheduleFields(TypedDict, total=False):
    """What can be said of a schedule. Of one that is there, what is not given stays as it was."""

    name: str
    agent_type: str
    message: str
    kind: Kind
    at: str | None
    every_ms: int | None
    cron: str | None
    timezone: str
    overlap: Overlap
    catch_up: CatchUp
    limits: Limits | None


# Of a gateway.


def health(at: str) -> Request[api.Health]:
    return get(api.Health, f"{at}/healthz", repeat="never", seconds=10.0)


def agencies(at: str) -> Listing[AgencyInfo]:
    """Every agency that whoever is asking may see."""
    return listing(api.AgencyPage, f"{at}/agencies", lambda found: Page(found.agencies, found.next), begin="")


def create_agency(at: str, name: str, *, idempotency_key: str | None = None) -> Request[AgencyInfo]:
    """A new agency; with the key of an earlier request, the one that was made then."""
    return post(AgencyInfo, f"{at}/agencies", body(api.NewAgency, name=name, idempotency_key=idempotency_key or key()))


# Of an agency.


def agency(agency_id: str) -> str:
    """The path of an agency."""
    return f"/agency/{segment(agency_id)}"


def agency_info(at: str) -> Request[AgencyInfo]:
    """Its name, and when it was made."""
    return get(AgencyInfo, at)


def rename_agency(at: str, name: str) -> Request[AgencyInfo]:
    """Give it another name; its id stays."""
    return post(AgencyInfo, at, body(api.AgencyChange, name=name), method="PATCH")


def delete_agency(at: str) -> Request[None]:
    """Delete the agency with all its threads, blueprints and keys."""
    return delete(at, done=NotFound)


def usage(at: str) -> Request[AgencyUsage]:
    """What all its threads have used, those that were deleted too, and its budget."""
    return get(AgencyUsage, f"{at}/usage")


def set_budget(
    at: str,
    *,
    turns: int | None = None,
    time_ms: int | None = None,
    tokens: int | None = None,
    cost_usd: float | None = None,
) -> Request[AgencyUsage]:
    """What all its threads may use together; None is no limit. Those that had used it up go on, if there is more."""
    wanted = body(Budget, turns=turns, time_ms=time_ms, tokens=tokens, cost_usd=cost_usd)
    return post(AgencyUsage, f"{at}/budget", wanted, method="PUT")


def providers(at: str) -> Listing[ProviderInfo]:
    """Every provider that models can be named with; the agency's own in the place of the installation's."""
    return listing(api.ProviderPage, f"{at}/providers", lambda found: Page(found.providers, found.next), begin="")


def put_provider(at: str, name: str, entry: Provider) -> Request[ProviderInfo]:
    """Add a provider, or put another in its place. It counts for every model call that begins from now on."""
    path = f"{at}/providers/{segment(name)}"
    return post(ProviderInfo, path, entry.model_dump_json(exclude_unset=True).encode(), method="PUT")


def delete_provider(at: str, name: str) -> Request[None]:
    """Remove one of the agency's own; if it was in the place of the installation's, that one counts again."""
    return delete(f"{at}/providers/{segment(name)}", done=NotFound)


def keys(at: str) -> Listing[KeyInfo]:
    """The agency's keys, without what has to be shown."""
    return listing(api.KeyPage, f"{at}/keys", lambda found: Page(found.keys, found.next), begin="")


def create_key(at: str, name: str, role: KeyRole) -> Request[NewKey]:
    """A key to this agency. Its text is in the answer, and is not to be had a second time."""
    wanted = body(api.KeyWanted, name=name, role=role)
    return post(NewKey, f"{at}/keys", wanted, repeat="unsent")  # else there might be two


def revoke_key(at: str, key_id: str) -> Request[None]:
    """From now on the key opens nothing."""
    return delete(f"{at}/keys/{segment(key_id)}", done=NotFound)


def blueprints(at: str) -> Listing[BlueprintInfo]:
    """Every agent that threads can be made for; the agency's own in the place of the code's."""
    return listing(api.BlueprintPage, f"{at}/blueprints", lambda found: Page(found.blueprints, found.next), begin="")


def put_blueprint(at: str, name: str, **fields: Unpack[BlueprintFields]) -> Request[BlueprintInfo]:
    """Add a blueprint, or change one: what is not given stays as it was. Threads to come get it, at once."""
    return post(BlueprintInfo, f"{at}/blueprints", encoded(api.BlueprintChange, {"name": name, **fields}))


def delete_blueprint(at: str, name: str) -> Request[None]:
    """Remove one of the agency's own; if it was in the place of the code's, that one counts again."""
    return delete(f"{at}/blueprints/{segment(name)}", done=NotFound)


def schedules(at: str) -> Listing[ScheduleInfo]:
    """When it starts threads by itself."""
    return listing(SchedulePage, f"{at}/schedules", lambda found: Page(found.schedules, found.next))


def create_schedule(
    path: str, /, *, idempotency_key: str | None = None, **fields: Unpack[ScheduleFields]
) -> Request[ScheduleInfo]:
    """A new schedule: its `name`, `agent_type` and `message`, and `kind` "once" with `at`, "interval" with `every_ms`,
    or "cron" with `cron` and a `timezone`."""
    wanted = encoded(api.NewSchedule, {**fields, "idempotency_key": idempotency_key or key()})
    return post(ScheduleInfo, f"{path}/schedules", wanted)


def schedule_info(at: str, schedule_id: str) -> Request[ScheduleInfo]:
    """A schedule, and when it is due next."""
    return get(ScheduleInfo, _schedule(at, schedule_id))


def change_schedule(path: str, /, schedule_id: str, **fields: Unpack[ScheduleFields]) -> Request[ScheduleInfo]:
    """Change a schedule; what is not given stays as it was."""
    return post(ScheduleInfo, _schedule(path, schedule_id), encoded(api.ScheduleChange, fields), method="PATCH")


def pause_schedule(at: str, schedule_id: str) -> Request[ScheduleInfo]:
    """Have it start nothing until it is resumed."""
    return post(ScheduleInfo, _schedule(at, schedule_id), body(api.ScheduleChange, status="paused"), method="PATCH")


def resume_schedule(at: str, schedule_id: str) -> Request[ScheduleInfo]:
    """Have it go on, with what comes next and not with what was due meanwhile."""
    return post(ScheduleInfo, _schedule(at, schedule_id), body(api.ScheduleChange, status="active"), method="PATCH")


def run_schedule(at: str, schedule_id: str, *, idempotency_key: str | None = None) -> Request[ScheduleRun]:
    """Have it run now, as its `overlap` says; with "skip", not while a run of it is going on (`WrongState`)."""
    wanted = body(api.RunWanted, idempotency_key=idempotency_key or key())
    return post(ScheduleRun, f"{_schedule(at, schedule_id)}/run", wanted)


def schedule_runs(at: str, schedule_id: str) -> Listing[ScheduleRun]:
    """What came of it, the newest first."""
    path = f"{_schedule(at, schedule_id)}/runs"
    return listing(ScheduleRunPage, path, lambda found: Page(found.runs, found.next))


def delete_schedule(at: str, schedule_id: str) -> Request[None]:
    """Delete a schedule with its history. The threads that it has started stay."""
    return delete(_schedule(at, schedule_id), done=NotFound)


def _schedule(at: str, schedule_id: str) -> str:
    return f"{at}/schedules/{segment(schedule_id)}"


def create_thread(
    at: str,
    agent: str,
    message: Messages = (),
    *,
    files: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    output_schema: OutputType | None = None,
    idempotency_key: str | None = None,
) -> Request[ThreadMetadata]:
    """A new thread for an agent, at work at once if there is a message; `files` are text by path. `limits` and
    `output_schema` (a pydantic model or a JSON schema) are in the place of the blueprint's, for that first run."""
    wanted = body(
        api.NewThread,
        agent_type=agent,
        messages=_chat(message),
        files=files,
        limits=limits,
        output_schema=None if output_schema is None else as_schema(output_schema),
        idempotency_key=idempotency_key or key(),
    )
    return post(ThreadMetadata, f"{at}/agents", wanted)


def threads(
    at: str, *, status: RunStatus | None = None, parent: str | None = None, newest_first: bool = False
) -> Listing[ThreadSummary]:
    """The agency's threads and what each is doing; only those in a status, or only one's children."""
    order = "newest" if newest_first else "oldest"
    return listing(
        api.ThreadPage,
        f"{at}/agents",
        lambda found: Page(found.agents, found.next),
        order=order,
        status=status,
        parent=parent,
    )


def approvals(at: str) -> Listing[api.Approval]:
    """Everything that waits for a person."""
    return listing(api.ApprovalPage, f"{at}/approvals", lambda found: Page(found.approvals, found.next))


def answer(
    at: str, decisions: Mapping[str, Decision], *, idempotency_key: str | None = None
) -> Request[api.DecisionResults]:
    """Decide on calls of any threads, by their `approval_id`s; what has come of each decision."""
    wanted = body(api.DecideBody, decisions=decisions, idempotency_key=idempotency_key or key())
    return post(api.DecisionResults, f"{at}/approvals", wanted)


def policy(at: str) -> Request[Policy]:
    """Which calls a person has to approve, whatever the blueprints say."""
    return get(Policy, f"{at}/policy")


def set_policy(at: str, policy: Policy) -> Request[Policy]:
    """It counts for every model's reply that comes from now on."""
    return post(Policy, f"{at}/policy", policy.model_dump_json().encode(), method="PUT")


def agency_events(
    at: str, after: int | Literal["now"] = 0, *, patience: float = FOLLOW_SECONDS
) -> Feed[api.AgencyEvent]:
    """The stored events of all threads after a cursor, then those to come, as `events` of a thread."""
    return Feed(f"{at}/events", api.AgencyEvent, lambda event: event.cursor, after, patience)


# Of a thread.


def thread(agency_id: str, thread_id: str) -> str:
    """The path of a thread."""
    return f"{agency(agency_id)}/agent/{segment(thread_id)}"


def thread_info(at: str) -> Request[ThreadSummary]:
    """What is known of it, and what it is doing."""
    return get(ThreadSummary, at)


def delete_thread(at: str) -> Request[None]:
    """Delete the thread with all its descendants."""
    return delete(at, done=NotFound)


def fork(
    at: str,
    message: Messages = (),
    *,
    after_seq: int | None = None,
    before_message: str | None = None,
    idempotency_key: str | None = None,
) -> Request[ThreadMetadata]:
    """A new thread that begins as this one was: after one of its events, before one of its user's messages, or as it is
    now. With a message it goes on at once. This one is not changed, whatever it is doing."""
    wanted = body(
        api.NewFork,
        after_seq=after_seq,
        before_message=before_message,
        messages=_chat(message),
        idempotency_key=idempotency_key or key(),
    )
    return post(ThreadMetadata, f"{at}/fork", wanted)


def invoke(
    at: str,
    message: Messages,
    *,
    files: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    output_schema: OutputType | None = None,
    when: When = "next_step",
    idempotency_key: str | None = None,
) -> Request[Accepted]:
    """Start a run with a message. During a run, the message joins it at its next step, or starts the run after it
    (`next_run`), or interrupts what is being done (`now`). `limits` and `output_schema` (a pydantic model or a JSON
    schema) are in the place of the blueprint's, for a run that this starts."""
    wanted = body(
        api.InvokeBody,
        messages=_chat(message),
        files=files,
        limits=limits,
        output_schema=None if output_schema is None else as_schema(output_schema),
        when=when,
        idempotency_key=idempotency_key or key(),
    )
    return post(Accepted, f"{at}/invoke", wanted)


def state(at: str) -> Request[api.StateAndRun]:
    """The conversation, the tools, and what the middleware keep: todos, files, subagents."""
    return get(api.StateAndRun, f"{at}/state")


def files(at: str) -> Request[tuple[FileInfo, ...]]:
    """The agent's files, by path."""
    return get(api.FileList, f"{at}/files").then(lambda found: found.files)


def read_file(at: str, path: str) -> Request[bytes]:
    """What is in a file."""
    return get_bytes(f"{at}/file", {"path": path})


def put_file(at: str, path: str, content: str | bytes) -> Request[None]:
    """Give the agent a file, in the place of the one it has under this path."""
    given = content.encode() if isinstance(content, str) else content
    return put_bytes(f"{at}/file", {"path": path}, given)


def delete_file(at: str, path: str) -> Request[None]:
    """Take a file from the agent."""
    return delete(f"{at}/file", {"path": path}, done=NotFound)


def run(at: str) -> Request[RunEnvelope]:
    """The latest run, as it is now."""
    return get(RunEnvelope, f"{at}/run")


def run_after(at: str, wait: float) -> Request[RunEnvelope]:
    """The latest run, when it has ended or needs a person, or after so many seconds."""
    return get(RunEnvelope, f"{at}/run", {"wait": wait}, seconds=wait + 60.0)


def events(at: str, after: int = 0, *, patience: float = FOLLOW_SECONDS) -> Feed[Event]:
    """Every event after a seq, then those to come, with the text that models stream (`model.delta`, without a seq).

    A connection that breaks is made again, and no stored event is missed or repeated; when there was none for
    `patience` seconds, that is `Unavailable`. It goes on until it is closed, or the thread is deleted (`NotFound`).
    """
    return Feed(f"{at}/events", Event, lambda event: event.seq, after, patience)


def stored_events(at: str, after: int = 0, limit: int = 1_000) -> Request[tuple[Event, ...]]:
    """A page of the events so far."""
    return get(api.EventPage, f"{at}/events", {"after": after, "limit": limit}).then(lambda found: found.events)


def approve(at: str, *, idempotency_key: str | None = None) -> Request[None]:
    """Let every call that waits for a person run."""
    return order(f"{at}/approve", body(api.ApproveBody, approved=True, idempotency_key=idempotency_key or key()))


def deny(at: str, reason: str = "", *, idempotency_key: str | None = None) -> Request[None]:
    """Let no call that waits for a person run; the model is told why."""
    answer = body(api.ApproveBody, approved=False, reason=reason, idempotency_key=idempotency_key or key())
    return order(f"{at}/approve", answer)


def decide(at: str, decisions: Mapping[str, Decision], *, idempotency_key: str | None = None) -> Request[None]:
    """Answer calls that wait for a person, by their ids, or by their `approval_id`s, which name them with exactly the
    arguments that were shown. Calls that are not named go on waiting."""
    return order(f"{at}/approve", body(api.ApproveBody, decisions=decisions, idempotency_key=idempotency_key or key()))


def cancel(at: str) -> Request[None]:
    """End the run, with all its children."""
    return order(f"{at}/cancel", done=WrongState)


def pause(at: str) -> Request[None]:
    """Have the run wait until somebody resumes it; what is being done just now may end."""
    return order(f"{at}/pause", done=WrongState)


def resume(at: str) -> Request[None]:
    """Let a run go on that was paused by hand."""
    return order(f"{at}/resume", done=WrongState)


def lift_limits(
    at: str,
    *,
    turns: int | None = None,
    time_ms: int | None = None,
    tokens: int | None = None,
    cost_usd: float | None = None,
) -> Request[None]:
    """Let a run that has used up a limit go on, under these new ones."""
    lifted = body(api.NewLimits, turns=turns, time_ms=time_ms, tokens=tokens, cost_usd=cost_usd)
    return order(f"{at}/limits", lifted, done=WrongState)


def _chat(message: Messages) -> tuple[dict[str, object], ...]:
    if isinstance(message, str):
        message = Message(role="user", content=message)
    given = (message,) if isinstance(message, Message) else message
    return tuple({"role": each.role, "content": each.content, "images": each.images} for each in given)
