"""The inbox: everything in an agency that waits for a person, decisions on it, and the agency's policy."""

from __future__ import annotations

import asyncio
import hashlib

import structlog
from fastapi import APIRouter

from actors import Cluster
from agency.api import bodies as api
from agency.api.tenancy import ThreadSummary
from agency.approvals.pending import thread_of
from agency.approvals.rules import Policy
from agency.errors import AgencyError, NotFound
from agency.events import OURS
from agency.turn.outcomes import Decision
from agency.turn.state import PauseReason
from dashboard.gateway.access import Admin, AnyPrincipal, Operator, Principal, TheCluster, Viewer
from dashboard.gateway.json_route import JsonRoute
from dashboard.gateway.parameters import After, AgencyId, Limit
from dashboard.gateway.problems import refusals, told_by

log = structlog.get_logger(__name__)
router = APIRouter(route_class=JsonRoute, prefix="/agency/{agency_id}", tags=["people"])

AT_ONCE = 50
"""So many threads are asked at a time what they wait for."""

WAITING: tuple[PauseReason, ...] = ("hitl", "exhausted")


@router.get("/approvals", dependencies=[Viewer], responses=refusals(404))
async def approvals(cluster: TheCluster, agency_id: AgencyId, after: After = 0, limit: Limit = 100) -> api.ApprovalPage:
    """Everything in the agency that waits for a person, children's calls included."""
    found: list[api.Approval] = []
    size = 0
    while True:
        some = min(AT_ONCE, limit - len(found))
        page = await cluster.agency(agency_id).threads(after, some, status="paused", reason=WAITING)
        waiting = await asyncio.gather(*(_waiting(cluster, each) for each in page.threads))
        found += [each for each in waiting if each is not None]
        size += sum(len(each.model_dump_json()) for each in waiting if each is not None)
        if page.next is None or len(found) >= limit or size >= cluster.settings.page_bytes:
            return api.ApprovalPage(approvals=tuple(found), next=page.next)
        after = page.next


async def _waiting(cluster: Cluster, thread: ThreadSummary) -> api.Approval | None:
    """What a thread waits for, from its file if its host does not answer; None if a person decided on it, or the
    thread was deleted, in the meantime. One that cannot be read, as when its file is damaged, is left out: nothing can
    be decided there now, and the others go on."""
    try:
        envelope = await cluster.thread(thread.agency_id, thread.id).wait(0)
    except NotFound:
        return None
    except AgencyError as error:
        log.warning("left out of the inbox", agency=thread.agency_id, thread=thread.id, reason=str(error))
        return None
    calls, reason = envelope.meta.pending_tool_calls, envelope.meta.pause_reason
    if not calls and reason != "exhausted":
        return None
    return api.Approval(
        thread_id=thread.id,
        agent_type=thread.agent_type,
        title=thread.title,
        request=envelope.meta.request,
        run_id=envelope.run_id,
        since=thread.updated_at,
        kind="calls" if calls else "limit",
        parent_id=None if thread.parent is None else thread.parent.thread_id,
        calls=calls,
        code=None if calls or not envelope.errors else envelope.errors[0].code,
    )


@router.post("/approvals", dependencies=[Operator], responses=refusals(404))
async def answer(
    cluster: TheCluster, agency_id: AgencyId, body: api.DecideBody, principal: AnyPrincipal
) -> api.DecisionResults:
    """Decide on calls of any of the agency's threads. Decisions on calls that no longer wait as shown are refused."""
    await cluster.agency(agency_id).info()  # raises `NotFound` if there is no such agency
    by_thread: dict[str, dict[str, Decision]] = {}
    refused: list[api.RefusedDecision] = []
    for approval, decision in body.decisions.items():
        try:
            by_thread.setdefault(thread_of(approval), {})[approval] = decision
        except AgencyError as error:
            refused.append(_refused(approval, error))
    rejected = await asyncio.gather(
        *(
            _decide(cluster, agency_id, thread, some, body.idempotency_key, principal)
            for thread, some in by_thread.items()
        )
    )
    refused += [each for some in rejected for each in some]
    gone = {each.approval_id for each in refused}
    return api.DecisionResults(
        answered=tuple(each for each in body.decisions if each not in gone), refused=tuple(refused)
    )


async def _decide(
    cluster: Cluster,
    agency_id: str,
    thread_id: str,
    decisions: dict[str, Decision],
    key: str | None,
    principal: Principal,
) -> list[api.RefusedDecision]:
    """Send decisions to a thread one by one, so that a refused one does not affect the others; those refused."""
    try:
        thread = cluster.thread(agency_id, thread_id)
    except AgencyError as error:
        return [_refused(approval, error) for approval in decisions]
    refused: list[api.RefusedDecision] = []
    for approval, decision in decisions.items():
        named = None if key is None else f"{OURS}answer:{_digest(key, approval)}"
        try:
            await thread.decide({approval: decision}, idempotency_key=named, by=principal.name)
        except AgencyError as error:
            refused.append(_refused(approval, error))
    return refused


def _digest(key: str, approval: str) -> str:
    return hashlib.blake2b(f"{key}\0{approval}".encode("utf-8", "replace"), digest_size=16).hexdigest()


def _refused(approval: str, error: AgencyError) -> api.RefusedDecision:
    return api.RefusedDecision(approval_id=approval, code=error.code, message=told_by(error))


@router.get("/policy", dependencies=[Viewer], responses=refusals(404))
async def get_policy(cluster: TheCluster, agency_id: AgencyId) -> Policy:
    """Which calls a person must approve, whatever the blueprints say."""
    return await cluster.agency(agency_id).policy()


@router.put("/policy", dependencies=[Admin], responses=refusals(404))
async def set_policy(cluster: TheCluster, who: AnyPrincipal, agency_id: AgencyId, body: Policy) -> Policy:
    """Set which calls a person must approve. It applies to every model reply from now on.

    With the installation's secret you set the owner's policy, with a key the agency's own. Both hold: of each, the
    first rule that fits a call counts, and of the two the higher risk. An agency's policy that is plainly milder than
    the owner's is refused (403)."""
    return await cluster.agency(agency_id).set_policy(body, by=who.layer)
