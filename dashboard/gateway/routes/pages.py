"""The dashboard: a page and its files. They hold nothing secret; what they show, they ask the API for.

What threads say is not to be trusted, so the page may do little: run these files, talk to this gateway, and never turn
text into HTML.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse

from agency.errors import NotFound

router = APIRouter(include_in_schema=False)

WEB = Path(__file__).parents[2] / "web"
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
HEADERS = {
    "Content-Security-Policy": "; ".join(POLICY),
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@router.get("/")
async def dashboard() -> FileResponse:
    return FileResponse(WEB / "index.html", headers=HEADERS)


@router.get("/assets/{name}")
async def asset(name: str) -> FileResponse:
    path = WEB / "assets" / name
    if path.parent != WEB / "assets" or path.suffix not in TYPES or not path.is_file():
        raise NotFound("the dashboard has no such file")
    return FileResponse(path, headers=HEADERS, media_type=TYPES[path.suffix])
