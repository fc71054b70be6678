"""Agencies: making, listing, renaming and deleting them, and their keys."""

from __future__ import annotations

import hashlib

from fastapi import APIRouter, status

from agency.api import bodies as api
from agency.api.tenancy import AgencyInfo, KeyInfo, NewKey
from agency.errors import NotFound
from dashboard.gateway.access import Admin, Anybody, Owner, TheCluster, Viewer
from dashboard.gateway.json_route import JsonRoute
from dashboard.gateway.parameters import AfterName, AgencyId, KeyId, Limit
from dashboard.gateway.problems import refusals

router = APIRouter(route_class=JsonRoute, tags=["agencies"])


@router.get("/agencies", responses=refusals())
async def list_agencies(
    cluster: TheCluster,
    who: Anybody,
    after: AfterName = "",
    limit: Limit = 100,
) -> api.AgencyPage:
    """The agencies that are visible to whoever is asking."""
    if who.agency is not None:
        return api.AgencyPage(agencies=(await cluster.agency(who.agency).info(),))
    found = await cluster.agencies(after, limit)
    return api.AgencyPage(agencies=tuple(found), next=found[-1].id if len(found) == limit else None)


@router.post("/agencies", status_code=status.HTTP_201_CREATED, responses=refusals(409))
async def create_agency(cluster: TheCluster, owner: Owner, body: api.NewAgency | None = None) -> AgencyInfo:
    """A new agency."""
    wanted = body or api.NewAgency()
    agency_id = None if wanted.idempotency_key is None else derived("agc", wanted.idempotency_key)
    return await (await cluster.create_agency(wanted.name, agency_id=agency_id)).info()


@router.get("/agency/{agency_id}", dependencies=[Viewer], responses=refusals(404))
async def get_agency(cluster: TheCluster, agency_id: AgencyId) -> AgencyInfo:
    return await cluster.agency(agency_id).info()


@router.patch("/agency/{agency_id}", dependencies=[Admin], responses=refusals(404))
async def rename_agency(cluster: TheCluster, agency_id: AgencyId, body: api.AgencyChange) -> AgencyInfo:
    return await cluster.agency(agency_id).rename(body.name)


@router.delete(
    "/agency/{agency_id}", status_code=status.HTTP_204_NO_CONTENT, dependencies=[Admin], responses=refusals(404)
)
async def delete_agency(cluster: TheCluster, agency_id: AgencyId) -> None:
    """Delete an agency with all its threads, blueprints and keys."""
    await cluster.agency(agency_id).delete()


@router.get("/agency/{agency_id}/keys", dependencies=[Admin], responses=refusals(404))
async def list_keys(cluster: TheCluster, agency_id: AgencyId, after: AfterName = "", limit: Limit = 100) -> api.KeyPage:
    """The agency's keys in the order of their ids, without what has to be shown."""
    found = sorted(await cluster.agency(agency_id).keys(), key=lambda key: key.id)
    keys = [key for key in found if key.id > after]
    return api.KeyPage(keys=tuple(keys[:limit]), next=keys[limit - 1].id if len(keys) > limit else None)


@router.post(
    "/agency/{agency_id}/keys",
    status_code=status.HTTP_201_CREATED,
    dependencies=[Admin],
    responses=refusals(404),
)
async def create_key(cluster: TheCluster, agency_id: AgencyId, body: api.KeyWanted) -> NewKey:
    """A new key: `key` is what its holder shows, and is not to be had a second time."""
    return await cluster.agency(agency_id).create_key(body.name, body.role)


@router.get("/agency/{agency_id}/keys/{key_id}", dependencies=[Admin], responses=refusals(404))
async def get_key(cluster: TheCluster, agency_id: AgencyId, key_id: KeyId) -> KeyInfo:
    found = next((key for key in await cluster.agency(agency_id).keys() if key.id == key_id), None)
    if found is None:
        raise NotFound(f"the agency has no key {key_id!r}")
    return found


@router.delete(
    "/agency/{agency_id}/keys/{key_id}",
    status_code=status.HTTP_204_NO_CONTENT,
    dependencies=[Admin],
    responses=refusals(404),
)
async def revoke_key(cluster: TheCluster, agency_id: AgencyId, key_id: KeyId) -> None:
    """From now on the key opens nothing."""
    await cluster.agency(agency_id).revoke_key(key_id)


def derived(prefix: str, *parts: str) -> str:
    """The one id that a request with an idempotency key can make."""
    named = "\0".join(parts).encode("utf-8", "replace")
    return f"{prefix}_{hashlib.blake2b(named, digest_size=10).hexdigest()}"
