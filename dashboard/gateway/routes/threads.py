"""Threads: create them, send to them, look at them, decide on their calls, and steer their runs."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response, status

from actors import ThreadHandle
from actors.host.system_agent import WAIT_MOST
from agency.api import bodies as api
from agency.api.conversation import as_messages
from agency.api.settling import SettleBody
from agency.api.steering import RetryBody, StateEdit
from agency.api.tenancy import ThreadSummary
from agency.approvals.decisions import ApproveResult
from agency.errors import InvalidInput, WrongState
from agency.events import OURS
from agency.metadata import ThreadMetadata
from agency.thread.call_records import CallRecord
from agency.thread.model_records import ModelCallRecord
from agency.thread.outside import Settlement
from agency.thread.views import Accepted, RunEnvelope, RunStatus
from dashboard.gateway.access import Admin, AnyPrincipal, Heavy, Operator, TheCluster, Viewer
from dashboard.gateway.json_route import JsonRoute
from dashboard.gateway.parameters import After, AgencyId, CallId, Limit, ThreadId
from dashboard.gateway.problems import refusals
from dashboard.gateway.request_context import request_context
from dashboard.gateway.routes.agencies import derived
from dashboard.gateway.streaming import whole

router = APIRouter(route_class=JsonRoute, prefix="/agency/{agency_id}", tags=["threads"])


@router.get("/agents", dependencies=[Viewer], responses=refusals(404))
async def list_threads(
    cluster: TheCluster,
    agency_id: AgencyId,
    after: After = 0,
    limit: Limit = 1_000,
    parent: Annotated[str | None, Query(max_length=64, description="Only this thread's children.")] = None,
    status: Annotated[RunStatus | None, Query(description="Only threads whose latest run has this status.")] = None,
    order: Annotated[Literal["oldest", "newest"], Query(description="What comes first.")] = "newest",
) -> api.ThreadPage:
    """The agency's threads and their status."""
    newest_first = order == "newest"
    agency = cluster.agency(agency_id)
    page = await agency.threads(after, limit, parent=parent, status=status, newest_first=newest_first)
    return api.ThreadPage(agents=page.threads, next=page.next)


@router.post(
    "/agents",
    status_code=status.HTTP_201_CREATED,
    dependencies=[Operator, Heavy],
    responses=refusals(404, 409),
)
async def create_thread(
    cluster: TheCluster, agency_id: AgencyId, body: api.NewThread, request: Request
) -> ThreadMetadata:
    """Create a thread for an agent. Messages start its first run at once."""
    key = body.idempotency_key
    thread = await cluster.agency(agency_id).create_thread(
        body.agent_type,
        as_messages(body.messages),
        thread_id=None if key is None else derived("thr", agency_id, key),
        request=request_context(request),
        limits=body.limits,
        files=body.files,
        output_schema=body.output_schema,
        **body.option_fields,
    )
    return thread.created or await thread.metadata()


@router.get("/agent/{thread_id}", dependencies=[Viewer], responses=refusals(404))
async def get_thread(cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId) -> ThreadSummary:
    """A thread's metadata and status."""
    return await cluster.thread(agency_id, thread_id).info()


@router.patch("/agent/{thread_id}", dependencies=[Operator], responses=refusals(404))
async def rename_thread(
    cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, body: api.ThreadChange
) -> ThreadSummary:
    """Give a thread another title."""
    return await cluster.agency(agency_id).rename_thread(thread_id, body.title)


@router.delete(
    "/agent/{thread_id}",
    status_code=status.HTTP_204_NO_CONTENT,
    dependencies=[Admin],
    responses=refusals(404),
)
async def delete_thread(cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId) -> None:
    """Delete a thread with all its descendants."""
    await cluster.agency(agency_id).delete_thread(thread_id)


@router.post(
    "/agent/{thread_id}/invoke",
    status_code=status.HTTP_202_ACCEPTED,
    dependencies=[Operator],
    responses=refusals(404, 409),
)
async def invoke(
    cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, given: api.InvokeBody | None = None
) -> Accepted:
    """Send messages, which start a run. During a run, they join it, start the run after it or interrupt it (`when`).
    Without messages, a run starts on the conversation as it is, and one in progress continues."""
    body = given or api.InvokeBody()
    thread = cluster.thread(agency_id, thread_id)
    await _check_meant(thread, body)
    return await thread.invoke(
        as_messages(body.messages),
        idempotency_key=body.idempotency_key,
        limits=body.limits,
        files=body.files,
        output_schema=body.output_schema,
        when=body.when,
        **body.option_fields,
    )


async def _check_meant(thread: ThreadHandle, body: api.InvokeBody) -> None:
    if body.thread_id not in (None, thread.id):
        raise InvalidInput(f"threadId is {body.thread_id!r:.100}, but the address names {thread.id!r}")
    if body.agent_type is not None and (meant := (await thread.metadata()).agent_type) != body.agent_type:
        raise InvalidInput(f"agentType is {body.agent_type!r:.100}, but the thread's agent is {meant!r}")


@router.post(
    "/agent/{thread_id}/fork",
    status_code=status.HTTP_201_CREATED,
    dependencies=[Operator, Heavy],
    responses=refusals(404, 409),
)
async def fork(
    cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, request: Request, body: api.NewFork | None = None
) -> ThreadMetadata:
    """Create a thread that begins as this one was: after one of its events, before one of its user's messages, or as it
    is now. Messages start its first run at once. This thread does not change."""
    wanted = body or api.NewFork()
    key = wanted.idempotency_key
    made = await cluster.thread(agency_id, thread_id).fork(
        as_messages(wanted.messages),
        after_seq=wanted.after_seq,
        before_message=wanted.before_message,
        thread_id=None if key is None else derived("thr", agency_id, thread_id, key),
        request=request_context(request),
        **wanted.option_fields,
    )
    return made.created or await made.metadata()


@router.get("/agent/{thread_id}/state", dependencies=[Viewer], response_model=api.StateAndRun, responses=refusals(404))
async def state(cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, request: Request) -> Response:
    """The messages, the tools, what middleware keep (todos, files, subagents), and the run at that moment."""
    found = await cluster.thread(agency_id, thread_id).state()
    known = api.AgentState(
        messages=found.messages,
        tools=found.tools,
        thread=found.thread,
        thread_id=found.thread.id,
        parent=found.thread.parent,
        agent_type=found.thread.agent_type,
        model=found.model,
        pending_tool_calls=found.pending_tool_calls or None,
        unattended_tools=found.unattended_tools,
        **found.more,
    )
    return whole(api.StateAndRun(state=known, run=found.run), request)


@router.patch("/agent/{thread_id}/state", dependencies=[Operator], responses=refusals(404, 409))
async def edit_state(
    cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, body: StateEdit, principal: AnyPrincipal
) -> api.Ok:
    """Change what the agent keeps: its todos, its files. It is refused while a run is at work: pause it first. The
    event `state.edited` has the name of your key, and what was changed."""
    thread = cluster.thread(agency_id, thread_id)
    await thread.edit_state(body.state, by=principal.name, seq=body.seq)
    return api.Ok()


@router.get("/agent/{thread_id}/run", dependencies=[Viewer], responses=refusals(404))
async def run(
    cluster: TheCluster,
    agency_id: AgencyId,
    thread_id: ThreadId,
    wait: Annotated[
        float,
        Query(
            ge=0, le=WAIT_MOST, description="Answer when the run has ended or needs a person, or after so many seconds."
        ),
    ] = 0.0,
) -> RunEnvelope:
    """The latest run; with `wait`, when it has ended or needs a person."""
    thread = cluster.thread(agency_id, thread_id)
    return await (thread.wait(wait) if wait else thread.run())


@router.get(
    "/agent/{thread_id}/call/{call_id:path}", dependencies=[Viewer], response_model=CallRecord, responses=refusals(404)
)
async def tool_call(
    request: Request,
    cluster: TheCluster,
    agency_id: AgencyId,
    thread_id: ThreadId,
    call_id: CallId,
    principal: AnyPrincipal,
    seq: Annotated[
        int | None, Query(ge=1, lt=2**63, description="An event of the call; left out, it is the latest of this id.")
    ] = None,
) -> Response:
    """A tool call with all of its arguments and its output. Events show them cut if they are long. Operators and admins
    also get its `traces`: tracebacks, and what it printed."""
    traces = principal.has(agency_id, "operator")
    return whole(await cluster.thread(agency_id, thread_id).tool_call(call_id, seq=seq, traces=traces), request)


@router.get("/agent/{thread_id}/traces", dependencies=[Operator], response_model=api.TraceList, responses=refusals(404))
async def traces(
    cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, request: Request, after: After = 0
) -> Response:
    """What failed with a traceback or printed something, oldest first: tools, models, hooks."""
    return whole(api.TraceList(traces=await cluster.thread(agency_id, thread_id).traces(after)), request)


@router.get(
    "/agent/{thread_id}/model-calls", dependencies=[Viewer], response_model=api.ModelCallList, responses=refusals(404)
)
async def model_calls(
    request: Request,
    cluster: TheCluster,
    agency_id: AgencyId,
    thread_id: ThreadId,
    run: Annotated[
        int | None, Query(ge=1, lt=2**63, description="The number of a run; left out, it is the latest.")
    ] = None,
) -> Response:
    """The model calls of a run in figures: tokens, cost and times. Those of hooks and tools are among them."""
    return whole(api.ModelCallList(model_calls=await cluster.thread(agency_id, thread_id).model_calls(run)), request)


@router.get(
    "/agent/{thread_id}/model-call/{seq}",
    dependencies=[Operator],
    response_model=ModelCallRecord,
    responses=refusals(404),
)
async def model_call(
    request: Request,
    cluster: TheCluster,
    agency_id: AgencyId,
    thread_id: ThreadId,
    seq: Annotated[int, Path(ge=1, lt=2**63, description="An event of the call: `model.started`, say.")],
) -> Response:
    """A model call with what was sent and what came back, by an event that tells of it."""
    return whole(await cluster.thread(agency_id, thread_id).model_call(seq), request)


# What people decide, and how they steer a run.


@router.post("/agent/{thread_id}/approve", dependencies=[Operator], responses=refusals(404, 409))
async def approve(
    cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, body: api.ApproveBody, principal: AnyPrincipal
) -> ApproveResult:
    """Decide on calls that wait for approval: on all at once, or on each by its id. Calls that you do not name continue
    to wait, and so do calls in doubt that you do not name: `inDoubt` lists those that `approved` has left."""
    thread = cluster.thread(agency_id, thread_id)
    key = None if body.idempotency_key is None else f"{OURS}approve:{body.idempotency_key}"
    if body.decisions is not None:
        await thread.decide(body.decisions, idempotency_key=key, by=principal.name)
    elif body.approved:
        return await thread.approve(body.modified_tool_calls, idempotency_key=key, by=principal.name)
    else:
        await thread.deny(body.reason, idempotency_key=key, by=principal.name)
    return ApproveResult()


@router.post("/agent/{thread_id}/settle", dependencies=[Operator], responses=refusals(404))
async def settle(cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, body: SettleBody) -> Settlement:
    """Give a call that waits for the outside its result or its error, by the token that its tool has handed out. A
    token settles once: a second request changes nothing, and its answer says so."""
    return await cluster.thread(agency_id, thread_id).settle(body.token, body.result, error=body.error)


@router.post("/agent/{thread_id}/cancel", dependencies=[Operator], responses=refusals(404))
async def cancel(cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, principal: AnyPrincipal) -> api.Ok:
    """Cancel the run, and the runs of its children. With nothing to cancel, this changes nothing. The run's
    `meta.canceledBy` has the name of your key."""
    with suppress(WrongState):
        await cluster.thread(agency_id, thread_id).cancel(by=principal.name)
    return api.Ok()


@router.post("/agent/{thread_id}/pause", dependencies=[Operator], responses=refusals(404, 409))
async def pause(cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId) -> api.Ok:
    """Pause the run until you resume it. The calls in progress finish, and nothing new begins."""
    await cluster.thread(agency_id, thread_id).pause()
    return api.Ok()


@router.post("/agent/{thread_id}/resume", dependencies=[Operator], responses=refusals(404, 409))
async def resume(cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId) -> api.Ok:
    """Resume a run that was paused with `pause`."""
    await cluster.thread(agency_id, thread_id).resume()
    return api.Ok()


@router.post(
    "/agent/{thread_id}/retry",
    status_code=status.HTTP_202_ACCEPTED,
    dependencies=[Operator],
    responses=refusals(404, 409),
)
async def retry(
    cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, given: RetryBody | None = None
) -> Accepted:
    """Try the latest run again, which has failed, from where it failed. A new run goes on with the conversation; the
    one that failed stays as it is."""
    body = given or RetryBody()
    return await cluster.thread(agency_id, thread_id).retry(limits=body.limits, idempotency_key=body.idempotency_key)


@router.post("/agent/{thread_id}/limits", dependencies=[Operator], responses=refusals(404, 409))
async def lift_limits(
    cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, given: api.NewLimits | None = None
) -> api.Ok:
    """Raise the limits of a run that has used one up, and let it continue."""
    body = given or api.NewLimits()
    thread = cluster.thread(agency_id, thread_id)
    await thread.lift_limits(turns=body.turns, time_ms=body.time_ms, tokens=body.tokens, cost_usd=body.cost_usd)
    return api.Ok()
