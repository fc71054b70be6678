"""Where a request came from. A thread that it creates keeps this, and its children inherit it."""

from __future__ import annotations

from fastapi import Request

from agency.metadata import RequestContext
from agency.wire import sayable_text

LONGEST = 1_000


def request_context(request: Request) -> RequestContext:
    return RequestContext(
        user_agent=_header(request, "user-agent"),
        ip=request.client.host if request.client is not None else None,
        referrer=_header(request, "referer"),
        origin=_header(request, "origin"),
    )


def _header(request: Request, name: str) -> str | None:
    value = request.headers.get(name)
    return None if value is None else sayable_text(value[:LONGEST])
