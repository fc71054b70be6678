"""What an agency uses and may use: tokens, money, turns, time."""

from __future__ import annotations

from fastapi import APIRouter

from agency.api.tenancy import AgencyUsage, Budget
from dashboard.gateway.access import Admin, TheCluster, Viewer
from dashboard.gateway.json_route import JsonRoute
from dashboard.gateway.parameters import AgencyId
from dashboard.gateway.problems import refusals

router = APIRouter(route_class=JsonRoute, prefix="/agency/{agency_id}", tags=["usage"])


@router.get("/usage", dependencies=[Viewer], responses=refusals(404))
async def usage(cluster: TheCluster, agency_id: AgencyId) -> AgencyUsage:
    """What all threads have used, those that were deleted too."""
    return await cluster.agency(agency_id).usage()


@router.put("/budget", dependencies=[Admin], responses=refusals(404))
async def set_budget(cluster: TheCluster, agency_id: AgencyId, body: Budget) -> AgencyUsage:
    """What all threads may use together; what is left out or null has no limit. When it is used up, runs pause as
    `exhausted` before their next model call. They go on by themselves when there is more."""
    return await cluster.agency(agency_id).set_budget(body)
