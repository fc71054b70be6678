"""The dashboard: a page and its files. They contain no secrets; the page gets what it shows from the API.

The text of threads is not trusted, so the page may do little: run its own files, talk to this gateway, and never turn
text into HTML. Images may come only from the page itself, which gets them from the API, so the browser requests no
address that stands in a thread's text.

Every view has an address of its own, so that it can be linked; all of them give the same page, which shows the view.
The page's `<base>` says where the app is mounted, so that the same files serve it anywhere. Files under `/assets/` have
a digest of their content in their names, and are kept by browsers for ever.
"""

from __future__ import annotations

import html
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from agency.errors import NotFound
from dashboard.gateway.mounting import mount_path
from dashboard.gateway.page_files import TYPES, BuiltPage
from dashboard.gateway.streaming import content_of

router = APIRouter(include_in_schema=False)

DIST = Path(__file__).parents[2] / "web" / "dist"
BUILT = BuiltPage(DIST)
POLICY = (
    "default-src 'self'",
    "img-src 'self' blob: data:",
    "base-uri 'self'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
HEADERS = {"Content-Security-Policy": "; ".join(POLICY), "Referrer-Policy": "same-origin"}
PAGE = {**HEADERS, "Cache-Control": "no-cache", "Content-Type": "text/html"}
ASSET = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}

NOT_BUILT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Agency</title>
<h1>The dashboard is not built</h1>
<p>Run <code>make setup</code> in the project's folder and load this page again. The API works without it.</p>
</html>
"""


@router.get("/")
@router.get("/a/{address:path}")
@router.get("/cluster")
@router.get("/docs")
async def dashboard(request: Request, address: str = "") -> Response:
    built = BUILT.files()
    if built is None:
        return HTMLResponse(NOT_BUILT, status_code=503, headers=PAGE)
    base = f'<base href="{html.escape(mount_path(request.scope))}/" />'
    return HTMLResponse(built.index.replace("<head>", f"<head>{base}", 1), headers=PAGE)


@router.get("/assets/{name}")
async def asset(name: str, request: Request) -> Response:
    built = BUILT.files()
    content = None if built is None else built.assets.get(name)
    if content is None:
        raise NotFound("the dashboard has no such file")
    return content_of(content, request, {**ASSET, "Content-Type": TYPES[Path(name).suffix]})
