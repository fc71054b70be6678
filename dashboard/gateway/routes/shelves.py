"""An agency's shelves: what outlives its threads. An entry's version is its ETag, so HTTP's own conditions apply:
`If-Match` for a version, `If-None-Match: *` for an entry that is not there yet.

The framework decodes the address before it finds the route, so an encoded slash is a slash like any other, and the
path that arrives here is checked as a whole by the store.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response, status

from agency.errors import InvalidInput
from agency.shelves.interface import ABSENT, KEY_CHARS, PATH_BYTES, ShelfEntry, ShelfList, ShelfPage, Version
from dashboard.gateway.access import Operator, TheCluster, Viewer
from dashboard.gateway.content import GIVEN, HEADERS, SHOWN, given, shown
from dashboard.gateway.parameters import AgencyId, Limit
from dashboard.gateway.problems import refusals
from dashboard.gateway.streaming import whole

router = APIRouter(prefix="/agency/{agency_id}/shelf", tags=["shelves"])

ShelfName = Annotated[str, Path(description="A shelf.", examples=["notes"])]
EntryPath = Annotated[
    str, Path(description="The path of an entry, which may have slashes.", examples=["recipes/rye.md"])
]
Prefix = Annotated[str, Query(max_length=PATH_BYTES, description="Only entries whose paths begin so.")]
AfterPath = Annotated[str, Query(max_length=PATH_BYTES, description="`next` of the page before.")]
IfMatch = Annotated[str | None, Header(description="Only if the entry has this version, in quotes.", examples=['"17"'])]
IfNew = Annotated[str | None, Header(alias="If-None-Match", description="`*`: only if there is no entry yet.")]
IfChanged = Annotated[
    str | None, Header(alias="If-None-Match", description="The version that you have, in quotes: 304 if it is current.")
]
WriteKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=KEY_CHARS,
        description="Names this write: sent again with the same content and conditions, it changes nothing.",
    ),
]

_CURRENT: dict[int | str, dict[str, Any]] = {304: {"description": "The entry still has this version."}}


@router.get("", dependencies=[Viewer], response_model=ShelfList, responses=refusals(404))
async def list_shelves(cluster: TheCluster, agency_id: AgencyId, request: Request) -> Response:
    """The shelves that have entries, by name."""
    return whole(ShelfList(shelves=tuple(await cluster.agency(agency_id).shelves())), request)


@router.get("/{shelf}", dependencies=[Viewer], responses=refusals(404))
async def list_entries(
    cluster: TheCluster,
    agency_id: AgencyId,
    shelf: ShelfName,
    prefix: Prefix = "",
    after: AfterPath = "",
    limit: Limit = 100,
) -> ShelfPage:
    """The entries of a shelf in the order of their paths. A shelf without entries is empty, not unknown."""
    return await cluster.agency(agency_id).shelf_entries(shelf, prefix, after=after, limit=limit)


@router.get(
    "/{shelf}/{path:path}",
    dependencies=[Viewer],
    response_class=Response,
    responses={**refusals(404), **SHOWN, **_CURRENT},
)
async def read_entry(
    cluster: TheCluster,
    agency_id: AgencyId,
    shelf: ShelfName,
    path: EntryPath,
    request: Request,
    if_none_match: IfChanged = None,
) -> Response:
    """The content of an entry. The `ETag` is its version."""
    found = await cluster.agency(agency_id).read_shelf(shelf, path)
    tag = {"ETag": _etag(found.version)}
    if if_none_match is not None and tag["ETag"] in if_none_match.replace("W/", "").split(", "):
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers={**HEADERS, **tag})
    return shown(found.content, path, request, tag)


@router.put("/{shelf}/{path:path}", dependencies=[Operator], responses=refusals(404, 412), openapi_extra=GIVEN)
async def write_entry(
    cluster: TheCluster,
    agency_id: AgencyId,
    shelf: ShelfName,
    path: EntryPath,
    request: Request,
    response: Response,
    if_match: IfMatch = None,
    if_none_match: IfNew = None,
    idempotency_key: WriteKey = None,
) -> ShelfEntry:
    """Put an entry under a path, in the place of what is there."""
    made = await cluster.agency(agency_id).write_shelf(
        shelf,
        path,
        await given(request),
        if_version=_condition(if_match, if_none_match),
        idempotency_key=idempotency_key,
    )
    response.headers["ETag"] = _etag(made.version)
    return made


@router.delete(
    "/{shelf}/{path:path}",
    status_code=status.HTTP_204_NO_CONTENT,
    dependencies=[Operator],
    responses=refusals(404, 412),
)
async def delete_entry(
    cluster: TheCluster, agency_id: AgencyId, shelf: ShelfName, path: EntryPath, if_match: IfMatch = None
) -> None:
    """Delete an entry."""
    await cluster.agency(agency_id).delete_shelf_entry(shelf, path, if_version=_condition(if_match, None))


def _etag(version: Version) -> str:
    return f'"{version}"'


def _condition(match: str | None, none_match: str | None) -> Version | None:
    if match is not None and none_match is not None:
        raise InvalidInput("send If-Match or If-None-Match, not both")
    if none_match is not None:
        if none_match.strip() != "*":
            raise InvalidInput('a write takes `If-None-Match: *` only; for a version, send `If-Match: "…"`')
        return ABSENT
    if match is None:
        return None
    version = match.strip()
    if len(version) < 3 or not (version[0] == version[-1] == '"') or '"' in version[1:-1] or version[1:-1] == ABSENT:
        raise InvalidInput('If-Match takes one version, in quotes as in the ETag: "17"')
    return version[1:-1]
