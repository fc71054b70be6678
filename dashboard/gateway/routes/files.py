"""A thread's files: those that the agent has written, and those that people give it. How a browser gets them is up to
`content`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response, status
from pydantic import AfterValidator

from agency.api import bodies as api
from agency.api.conversation import absolute
from dashboard.gateway.access import AnyPrincipal, Operator, TheCluster, Viewer
from dashboard.gateway.content import GIVEN, SHOWN, given, shown
from dashboard.gateway.parameters import AgencyId, ThreadId
from dashboard.gateway.problems import refusals
from dashboard.gateway.streaming import whole

router = APIRouter(prefix="/agency/{agency_id}/agent/{thread_id}", tags=["files"])

FilePath = Annotated[
    str,
    AfterValidator(absolute),
    Query(min_length=1, max_length=1_024, description="A path; a leading slash is added.", examples=["/report.md"]),
]


@router.get("/files", dependencies=[Viewer], response_model=api.FileList, responses=refusals(404))
async def list_files(cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, request: Request) -> Response:
    """The agent's files, by path."""
    return whole(api.FileList(files=await cluster.thread(agency_id, thread_id).files()), request)


@router.get("/file", dependencies=[Viewer], response_class=Response, responses={**refusals(404), **SHOWN})
async def read_file(
    cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, path: FilePath, request: Request
) -> Response:
    """The content of a file."""
    return shown(await cluster.thread(agency_id, thread_id).read_file(path), path, request)


@router.put("/file", dependencies=[Operator], responses=refusals(404), openapi_extra=GIVEN)
async def write_file(
    cluster: TheCluster,
    agency_id: AgencyId,
    thread_id: ThreadId,
    path: FilePath,
    request: Request,
    principal: AnyPrincipal,
) -> api.Ok:
    """Give the agent a file, which replaces the one at this path. The agent must read it before it can edit it."""
    await cluster.thread(agency_id, thread_id).put_files({path: await given(request)}, by=principal.name)
    return api.Ok()


@router.delete("/file", status_code=status.HTTP_204_NO_CONTENT, dependencies=[Operator], responses=refusals(404))
async def delete_file(
    cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, path: FilePath, principal: AnyPrincipal
) -> None:
    """Delete one of the agent's files."""
    await cluster.thread(agency_id, thread_id).delete_file(path, by=principal.name)
