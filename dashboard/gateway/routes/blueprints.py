"""Blueprints: the agents that an agency can create threads for, from the code and its own."""

from __future__ import annotations

from fastapi import APIRouter, Response, status

from agency.api import bodies as api
from agency.api.resolved import ResolvedBlueprint
from dashboard.gateway.access import Admin, AnyPrincipal, Heavy, TheCluster, Viewer
from dashboard.gateway.json_route import json_of
from dashboard.gateway.parameters import AfterName, AgencyId, BlueprintName, Limit
from dashboard.gateway.problems import refusals

router = APIRouter(route_class=json_of("blueprint_bytes"), prefix="/agency/{agency_id}/blueprints", tags=["blueprints"])


@router.get("", dependencies=[Viewer], responses=refusals(404))
async def list_blueprints(
    cluster: TheCluster, agency_id: AgencyId, after: AfterName = "", limit: Limit = 1_000
) -> api.BlueprintPage:
    """Every blueprint, by name. The agency's own replace the code's of the same name."""
    return await cluster.agency(agency_id).blueprints(after, limit)


@router.post(
    "",
    dependencies=[Admin, Heavy],
    responses={**refusals(404, 409), 201: {"model": api.SavedBlueprint, "description": "It is new to the agency."}},
)
async def put_blueprint(
    cluster: TheCluster, who: AnyPrincipal, agency_id: AgencyId, body: api.BlueprintChange, response: Response
) -> api.SavedBlueprint:
    """Add a blueprint, or change one: fields that you leave out keep their values. New threads use it at once. Tags and
    sections of `config` that this installation has nothing for are kept, and `warnings` names them."""
    made = await cluster.agency(agency_id).put_blueprint(body.fields, by=who.layer)
    if made.created_at == made.updated_at:
        response.status_code = status.HTTP_201_CREATED
    return api.SavedBlueprint(**made.model_dump(by_alias=False))


@router.post("/resolve", dependencies=[Viewer], responses=refusals(404))
async def resolve_blueprint(
    cluster: TheCluster, who: AnyPrincipal, agency_id: AgencyId, body: api.BlueprintChange
) -> ResolvedBlueprint:
    """What threads of this blueprint would have: middleware, tools and models, which tags bring them, and why it would
    be refused. Nothing is stored. Without a `prompt`, the rest is resolved all the same."""
    return await cluster.agency(agency_id).resolve_blueprint(body.fields, by=who.layer)


@router.delete("/{name}", status_code=status.HTTP_204_NO_CONTENT, dependencies=[Admin], responses=refusals(404))
async def delete_blueprint(cluster: TheCluster, agency_id: AgencyId, name: BlueprintName) -> None:
    """Delete a blueprint of the agency. The code's blueprint of the same name applies again."""
    await cluster.agency(agency_id).delete_blueprint(name)
