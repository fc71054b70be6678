"""Providers: the model providers that an agency can use, the installation's and its own."""

from __future__ import annotations

from fastapi import APIRouter, Response, status

from agency.api import bodies as api
from agency.api.tenancy import ProviderInfo
from agency.models.providers.entry import Provider
from dashboard.gateway.access import Admin, AnyPrincipal, TheCluster
from dashboard.gateway.json_route import json_of
from dashboard.gateway.parameters import AfterName, AgencyId, Limit, ProviderName
from dashboard.gateway.problems import refusals

router = APIRouter(
    route_class=json_of("provider_bytes"),
    prefix="/agency/{agency_id}/providers",
    tags=["providers"],
    dependencies=[Admin],
)


@router.get("", responses=refusals(404))
async def list_providers(
    cluster: TheCluster, agency_id: AgencyId, after: AfterName = "", limit: Limit = 100
) -> api.ProviderPage:
    """Every provider, by name. The agency's own replace the installation's of the same name."""
    return await cluster.agency(agency_id).providers(after, limit)


@router.put(
    "/{name}",
    responses={**refusals(404, 409), 201: {"model": ProviderInfo, "description": "It is new to the agency."}},
)
async def put_provider(
    cluster: TheCluster,
    who: AnyPrincipal,
    agency_id: AgencyId,
    name: ProviderName,
    body: Provider,
    response: Response,
) -> ProviderInfo:
    """Add a provider, or replace one. It applies to every model call that begins from now on.

    It refers to secrets and never contains them; it can refer only to variables that begin with `AGENCY_KEY_`. With a
    key of the agency, only to those that the operator allows it (`AGENCY_KEYS`), at the hosts that are theirs, and only
    public addresses and those in `AGENCY_PRIVATE_HOSTS` are reached.
    """
    made = await cluster.agency(agency_id).put_provider(name, body, by=who.layer)
    if made.created_at == made.updated_at:
        response.status_code = status.HTTP_201_CREATED
    return made


@router.delete("/{name}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
async def delete_provider(cluster: TheCluster, agency_id: AgencyId, name: ProviderName) -> None:
    """Delete a provider of the agency. The installation's provider of the same name applies again."""
    await cluster.agency(agency_id).delete_provider(name)
