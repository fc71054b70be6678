"""A thread's files: those that the agent has written, and those that people give it.

The content is not trusted, and a browser may open it. So the answer states a media type that the browser must not guess
around: bitmap images and plain text (also HTML and SVG, whose scripts therefore never run) are shown, and everything
else is an attachment.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response, status
from pydantic import AfterValidator
from starlette.requests import ClientDisconnect

from agency.api import bodies as api
from agency.api.conversation import absolute
from agency.errors import InvalidInput
from dashboard.gateway.access import Operator, TheCluster, Viewer
from dashboard.gateway.parameters import AgencyId, ThreadId
from dashboard.gateway.problems import refusals

router = APIRouter(prefix="/agency/{agency_id}/agent/{thread_id}", tags=["files"])

TEXT = "text/plain; charset=utf-8"
BINARY = "application/octet-stream"
IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
"""The first bytes of each format. A file's name says nothing reliable about its content."""

HEADERS = {"Content-Security-Policy": "default-src 'none'; sandbox", "Cache-Control": "no-store"}

FilePath = Annotated[
    str,
    AfterValidator(absolute),
    Query(min_length=1, max_length=1_024, description="A path; a leading slash is added.", examples=["/report.md"]),
]

_FILE = {"type": "string", "format": "binary"}
_SHOWN: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file as it is. A file that is neither text nor an image comes as an attachment.",
        "content": {
            TEXT: {"schema": {"type": "string"}, "example": "# Bread\n\n- rye\n"},
            **{kind: {"schema": _FILE} for kind in (BINARY, *dict.fromkeys(IMAGES.values()), "image/webp")},
        },
    }
}
_GIVEN = {
    "requestBody": {
        "required": True,
        "description": "The content itself, whatever its type.",
        "content": {BINARY: {"schema": _FILE}, "text/plain": {"schema": {"type": "string"}, "example": "seven rolls"}},
    }
}


@router.get("/files", dependencies=[Viewer], responses=refusals(404))
async def list_files(cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId) -> api.FileList:
    """The agent's files, by path."""
    return api.FileList(files=await cluster.thread(agency_id, thread_id).files())


@router.get("/file", dependencies=[Viewer], response_class=Response, responses={**refusals(404), **_SHOWN})
async def read_file(cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, path: FilePath) -> Response:
    """The content of a file."""
    content = await cluster.thread(agency_id, thread_id).read_file(path)
    kind = _kind(content)
    shown = "attachment" if kind == BINARY else "inline"
    name = quote(path.rpartition("/")[2], safe="")
    return Response(
        content,
        headers={**HEADERS, "Content-Type": kind, "Content-Disposition": f"{shown}; filename*=UTF-8''{name}"},
    )


@router.put("/file", dependencies=[Operator], responses=refusals(404), openapi_extra=_GIVEN)
async def write_file(
    cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, path: FilePath, request: Request
) -> api.Ok:
    """Give the agent a file, which replaces the one at this path. The agent must read it before it can edit it."""
    try:
        content = await request.body()
    except ClientDisconnect:
        raise InvalidInput("the connection closed before the whole file had come") from None
    await cluster.thread(agency_id, thread_id).put_files({path: content})
    return api.Ok()


@router.delete("/file", status_code=status.HTTP_204_NO_CONTENT, dependencies=[Operator], responses=refusals(404))
async def delete_file(cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, path: FilePath) -> None:
    """Delete one of the agent's files."""
    await cluster.thread(agency_id, thread_id).delete_file(path)


def _kind(content: bytes) -> str:
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    for beginning, kind in IMAGES.items():
        if content.startswith(beginning):
            return kind
    return TEXT if _is_text(content) else BINARY


def _is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False
