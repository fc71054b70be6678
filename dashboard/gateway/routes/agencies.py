"""Agencies and their keys: create, list, rename, delete."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import APIRouter, Query, status

from actors import place_of
from agency.api import bodies as api
from agency.api.tenancy import AgencyInfo, KeyInfo, NewKey
from dashboard.gateway.access import Admin, AnyPrincipal, Heavy, OwnerOnly, TheCluster, Viewer
from dashboard.gateway.json_route import JsonRoute
from dashboard.gateway.parameters import AfterName, AgencyId, KeyId, Limit
from dashboard.gateway.problems import refusals

router = APIRouter(route_class=JsonRoute, tags=["agencies"])


@router.get("/agencies", responses=refusals())
async def list_agencies(
    cluster: TheCluster,
    who: AnyPrincipal,
    after: Annotated[str, Query(max_length=200, description="`next` of the page before.")] = "",
    limit: Limit = 1_000,
) -> api.AgencyPage:
    """The agencies that your secret or key gives access to, the newest first."""
    if who.agency is not None:
        return api.AgencyPage(agencies=(await cluster.agency(who.agency).info(),))
    found = await cluster.agencies(after, limit)
    return api.AgencyPage(agencies=tuple(found), next=place_of(found[-1]) if len(found) == limit else None)


@router.post("/agencies", status_code=status.HTTP_201_CREATED, dependencies=[OwnerOnly, Heavy], responses=refusals(409))
async def create_agency(cluster: TheCluster, body: api.NewAgency | None = None) -> AgencyInfo:
    """Create an agency."""
    wanted = body or api.NewAgency()
    agency_id = None if wanted.idempotency_key is None else derived("agc", wanted.idempotency_key)
    return await (await cluster.create_agency(wanted.name, agency_id=agency_id)).info()


@router.get("/agency/{agency_id}", dependencies=[Viewer], responses=refusals(404))
async def get_agency(cluster: TheCluster, agency_id: AgencyId) -> AgencyInfo:
    """An agency's name, budget and time of creation."""
    return await cluster.agency(agency_id).info()


@router.patch("/agency/{agency_id}", dependencies=[Admin], responses=refusals(404))
async def rename_agency(cluster: TheCluster, agency_id: AgencyId, body: api.AgencyChange) -> AgencyInfo:
    """Rename an agency. Its id stays the same."""
    return await cluster.agency(agency_id).rename(body.name)


@router.delete(
    "/agency/{agency_id}", status_code=status.HTTP_204_NO_CONTENT, dependencies=[Admin], responses=refusals(404)
)
async def delete_agency(cluster: TheCluster, agency_id: AgencyId) -> None:
    """Delete an agency with all its threads, blueprints and keys."""
    await cluster.agency(agency_id).delete()


@router.get("/agency/{agency_id}/keys", dependencies=[Admin], responses=refusals(404))
async def list_keys(cluster: TheCluster, agency_id: AgencyId, after: AfterName = "", limit: Limit = 100) -> api.KeyPage:
    """The agency's keys in the order of their ids, without their texts."""
    return await cluster.agency(agency_id).keys(after, limit)


@router.post(
    "/agency/{agency_id}/keys",
    status_code=status.HTTP_201_CREATED,
    dependencies=[Admin, Heavy],
    responses=refusals(404, 409),
)
async def create_key(cluster: TheCluster, agency_id: AgencyId, body: api.KeyWanted) -> NewKey:
    """Create a key. Only this answer contains its text, as `key`."""
    return await cluster.agency(agency_id).create_key(body.name, body.role)


@router.get("/agency/{agency_id}/keys/{key_id}", dependencies=[Admin], responses=refusals(404))
async def get_key(cluster: TheCluster, agency_id: AgencyId, key_id: KeyId) -> KeyInfo:
    """A key without its text."""
    return await cluster.agency(agency_id).key(key_id)


@router.delete(
    "/agency/{agency_id}/keys/{key_id}",
    status_code=status.HTTP_204_NO_CONTENT,
    dependencies=[Admin],
    responses=refusals(404),
)
async def revoke_key(cluster: TheCluster, agency_id: AgencyId, key_id: KeyId) -> None:
    """Revoke a key at once."""
    await cluster.agency(agency_id).revoke_key(key_id)


def derived(prefix: str, *parts: str) -> str:
    """The id that a request with an idempotency key creates: always the same, so a repeat creates nothing new."""
    named = "\0".join(parts).encode("utf-8", "replace")
    return f"{prefix}_{hashlib.blake2b(named, digest_size=10).hexdigest()}"
