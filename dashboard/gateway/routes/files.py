"""A thread's files: what an agent has written, and what people give it.

What is in a file is not to be trusted, and a browser may be asked to open it. So it is told what it gets and not to
guess: images that are only pixels, and text as plain text whatever language it is in, are shown; anything else is to
be saved. A page or an SVG with a script in it is text here and never runs.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response, status
from starlette.requests import ClientDisconnect

from agency.api import bodies as api
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
"""What pictures begin with. The name of a file says nothing about what is in it."""

HEADERS = {"Content-Security-Policy": "default-src 'none'; sandbox", "Cache-Control": "no-store"}

FilePath = Annotated[
    str,
    Query(min_length=2, max_length=1_024, description='An absolute path, beginning with "/".', examples=["/report.md"]),
]

_FILE = {"type": "string", "format": "binary"}
_SHOWN: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file as it is. What is neither text nor a picture comes as an attachment.",
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
    """What is in a file."""
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
    """Give the agent a file, in the place of the one it has under this path. It must be read before it is edited."""
    try:
        content = await request.body()
    except ClientDisconnect:
        raise InvalidInput("the file did not come whole") from None
    await cluster.thread(agency_id, thread_id).put_files({path: content})
    return api.Ok()


@router.delete("/file", status_code=status.HTTP_204_NO_CONTENT, dependencies=[Operator], responses=refusals(404))
async def delete_file(cluster: TheCluster, agency_id: AgencyId, thread_id: ThreadId, path: FilePath) -> None:
    """Take a file from the agent."""
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
