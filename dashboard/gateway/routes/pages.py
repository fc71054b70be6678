"""The dashboard: a page and its files. They hold nothing secret; what they show, they ask the API for."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse

from agency.errors import NotFound

router = APIRouter(include_in_schema=False)

WEB = Path(__file__).parents[2] / "web"
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@router.get("/")
async def dashboard() -> FileResponse:
    return FileResponse(WEB / "index.html", headers=HEADERS)


@router.get("/assets/{name}")
async def asset(name: str) -> FileResponse:
    path = WEB / "assets" / name
    if path.parent != WEB / "assets" or not path.is_file():
        raise NotFound("the dashboard has no such file")
    return FileResponse(path, headers=HEADERS)
