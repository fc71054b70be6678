"""What an agency may use and has used: its usage, its budget, and the ceiling of a run's limits."""

from __future__ import annotations

from fastapi import APIRouter

from agency.api.tenancy import AgencyLayers, AgencyUsage, Budget
from agency.turn.state import RunCeiling
from dashboard.gateway.access import Admin, AnyPrincipal, TheCluster, Viewer
from dashboard.gateway.json_route import JsonRoute
from dashboard.gateway.parameters import AgencyId
from dashboard.gateway.problems import refusals

router = APIRouter(route_class=JsonRoute, prefix="/agency/{agency_id}", tags=["usage"])


@router.get("/usage", dependencies=[Viewer], responses=refusals(404))
async def usage(cluster: TheCluster, agency_id: AgencyId) -> AgencyUsage:
    """What all threads of the agency have used, deleted ones included, and its budget."""
    return await cluster.agency(agency_id).usage()


@router.put("/budget", dependencies=[Admin], responses=refusals(404))
async def set_budget(cluster: TheCluster, who: AnyPrincipal, agency_id: AgencyId, body: Budget) -> AgencyUsage:
    """Set what all threads may use together; a field that is left out or null has no limit. When the budget is used
    up, runs pause as `exhausted` before their next model call. They continue by themselves when you raise it.

    With the installation's secret you set the owner's budget, with a key the agency's own. The smaller of each part is
    in effect; an agency's part that is above the owner's is refused (403)."""
    return await cluster.agency(agency_id).set_budget(body, by=who.layer)


@router.get("/limits", dependencies=[Viewer], responses=refusals(404))
async def get_limits(cluster: TheCluster, agency_id: AgencyId) -> RunCeiling:
    """The most that any run of the agency may use, whatever its blueprint, its caller or its schedule says."""
    return await cluster.agency(agency_id).ceiling()


@router.put("/limits", dependencies=[Admin], responses=refusals(404))
async def set_limits(cluster: TheCluster, who: AnyPrincipal, agency_id: AgencyId, body: RunCeiling) -> RunCeiling:
    """Set the most that any run of the agency may use, subagents' runs included; a field that is left out or null has
    no ceiling. It applies to runs at work, before their next model call. The owner and the agency each set their own,
    as with the budget."""
    return await cluster.agency(agency_id).set_ceiling(body, by=who.layer)


@router.get("/layers", dependencies=[Admin], responses=refusals(404))
async def get_layers(cluster: TheCluster, who: AnyPrincipal, agency_id: AgencyId) -> AgencyLayers:
    """The budget, the policy and the limits as the owner and the agency have each set them. Of the two, the tighter is
    in effect; `yours` is the layer that your credential sets."""
    return await cluster.agency(agency_id).layers(by=who.layer)
