"""Content that agents and people have written, as a browser gets it.

It is not trusted, and a browser may open it. So the answer states a media type that the browser must not guess around:
bitmap images and plain text (also HTML and SVG, whose scripts therefore never run) are shown, and everything else is an
attachment. No route may send such content in another way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from starlette.requests import ClientDisconnect

from agency.errors import InvalidInput
from dashboard.gateway.streaming import content_of

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

_FILE = {"type": "string", "format": "binary"}
SHOWN: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The content as it is. What is neither text nor an image comes as an attachment.",
        "content": {
            TEXT: {"schema": {"type": "string"}, "example": "# Bread\n\n- rye\n"},
            **{kind: {"schema": _FILE} for kind in (BINARY, *dict.fromkeys(IMAGES.values()), "image/webp")},
        },
    }
}
"""For the OpenAPI document, of a route that answers with content."""
GIVEN = {
    "requestBody": {
        "required": True,
        "description": "The content itself, whatever its type.",
        "content": {BINARY: {"schema": _FILE}, "text/plain": {"schema": {"type": "string"}, "example": "seven rolls"}},
    }
}
"""The same, of a route that takes content."""


def shown(content: bytes, path: str, request: Request, headers: Mapping[str, str] | None = None) -> Response:
    """The answer with what is at a path."""
    kind = _kind(content)
    how = "attachment" if kind == BINARY else "inline"
    name = quote(path.rpartition("/")[2], safe="")
    disposition = f"{how}; filename*=UTF-8''{name}"
    told = {**HEADERS, "Content-Type": kind, "Content-Disposition": disposition, **(headers or {})}
    return content_of(content, request, told)


async def given(request: Request) -> bytes:
    """The whole content that a client sends."""
    try:
        return await request.body()
    except ClientDisconnect:
        raise InvalidInput("the connection closed before the whole content had come") from None


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
