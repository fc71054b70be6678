"""An agency's usage and its budget: tokens, money, turns, time."""

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
    """What all threads of the agency have used, deleted ones included, and its budget."""
    return await cluster.agency(agency_id).usage()


@router.put("/budget", dependencies=[Admin], responses=refusals(404))
async def set_budget(cluster: TheCluster, agency_id: AgencyId, body: Budget) -> AgencyUsage:
    """Set what all threads may use together; a field that is left out or null has no limit. When the budget is used
    up, runs pause as `exhausted` before their next model call. They continue by themselves when you raise it."""
    return await cluster.agency(agency_id).set_budget(body)
