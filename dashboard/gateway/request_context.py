"""Where a request came from. A thread that it creates keeps this, and its children inherit it.

What a proxy says about it is believed: `proxies` has removed that from the requests of others.
"""

from __future__ import annotations

from fastapi import Request
from pydantic import JsonValue

from agency.metadata import RequestContext
from agency.wire import sayable_text

LONGEST = 1_000

CLOUDFLARE = {
    "country": "cf-ipcountry",
    "continent": "cf-ipcontinent",
    "city": "cf-ipcity",
    "region": "cf-region",
    "regionCode": "cf-region-code",
    "postalCode": "cf-postal-code",
    "metroCode": "cf-metro-code",
    "timezone": "cf-timezone",
    "latitude": "cf-iplatitude",
    "longitude": "cf-iplongitude",
    "asOrganization": "cf-as-organization",
}
"""What is known about the place of a request, by the header that says so."""


def request_context(request: Request) -> RequestContext:
    return RequestContext(
        user_agent=_header(request, "user-agent"),
        ip=request.client.host if request.client is not None else None,
        referrer=_header(request, "referer"),
        origin=_header(request, "origin"),
        cf=_place(request) or None,
    )


def _place(request: Request) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    _, dash, colo = (_header(request, "cf-ray") or "").rpartition("-")
    if dash:
        found["colo"] = colo
    for name, header in CLOUDFLARE.items():
        if (value := _header(request, header)) is not None:
            found[name] = value
    return found


def _header(request: Request, name: str) -> str | None:
    value = request.headers.get(name)
    if value is None:
        return None
    text = value[:LONGEST].encode("latin-1", "replace").decode("utf-8", "replace")  # names of cities are sent in UTF-8
    return sayable_text(text)
