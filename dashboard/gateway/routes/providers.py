"""Providers: where the models of an agency are, the installation's and its own."""

from __future__ import annotations

from fastapi import APIRouter, Response, status

from agency.api import bodies as api
from agency.api.tenancy import ProviderInfo
from agency.models.providers.entry import Provider
from dashboard.gateway.access import Admin, TheCluster
from dashboard.gateway.json_route import JsonRoute
from dashboard.gateway.parameters import AfterName, AgencyId, Limit, ProviderName
from dashboard.gateway.problems import refusals

router = APIRouter(
    route_class=JsonRoute, prefix="/agency/{agency_id}/providers", tags=["providers"], dependencies=[Admin]
)


@router.get("", responses=refusals(404))
async def list_providers(
    cluster: TheCluster, agency_id: AgencyId, after: AfterName = "", limit: Limit = 100
) -> api.ProviderPage:
    """Every provider that models can be named with, by name; the agency's own in the place of the others."""
    found = [each for each in await cluster.agency(agency_id).providers() if each.name > after]
    last = found[limit - 1].name if len(found) > limit else None
    return api.ProviderPage(providers=tuple(found[:limit]), next=last)


@router.put(
    "/{name}",
    responses={**refusals(404), 201: {"model": ProviderInfo, "description": "It is new to the agency."}},
)
async def put_provider(
    cluster: TheCluster, agency_id: AgencyId, name: ProviderName, body: Provider, response: Response
) -> ProviderInfo:
    """Add a provider, or put another in its place. It counts for every model call that begins from now on.

    Its secrets are only referred to, and only variables of the installation that begin with `AGENCY_KEY_` can be.
    """
    made = await cluster.agency(agency_id).put_provider(name, body)
    if made.created_at == made.updated_at:
        response.status_code = status.HTTP_201_CREATED
    return made


@router.delete("/{name}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
async def delete_provider(cluster: TheCluster, agency_id: AgencyId, name: ProviderName) -> None:
    """Remove one of the agency's own; if it was in the place of the installation's, that one counts again."""
    await cluster.agency(agency_id).delete_provider(name)
