"""The dashboard's files are served from memory, as they were built last."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest

from dashboard.gateway.app import create_app
from dashboard.gateway.page_files import BuiltPage
from dashboard.gateway.routes import pages
from dashboard.gateway.settings import GatewaySettings

SCRIPT = b"let x = 1;" * 20_000


def build(folder: Path, title: str, at: int) -> None:
    assets = folder / "assets"
    assets.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(f"<html><head><title>{title}</title></head></html>")
    (assets / f"{title}-1a2b.js").write_bytes(SCRIPT)
    (assets / "notes.txt").write_text("not served")
    for each in (folder / "index.html", assets):
        os.utime(each, (at, at))


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> httpx.AsyncClient:
    build(tmp_path, "first", 1_000)
    monkeypatch.setattr(pages, "BUILT", BuiltPage(tmp_path))
    transport = httpx.ASGITransport(create_app(GatewaySettings()))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def test_no_request_opens_a_file(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(*given: object, **more: object) -> None:
        raise OSError("too many open files")

    for method in ("open", "read_bytes", "read_text"):
        monkeypatch.setattr(Path, method, no_more)
    assert "<title>first" in (await client.get("/")).text
    answer = await client.get("/assets/first-1a2b.js")
    assert (answer.content, answer.headers["content-type"]) == (SCRIPT, "text/javascript; charset=utf-8")
    assert "immutable" in answer.headers["cache-control"]
    for name in ("other.js", "notes.txt", "..%2Findex.html"):
        assert (await client.get(f"/assets/{name}")).status_code == 404


async def test_what_is_built_anew_is_served_then(client: httpx.AsyncClient, tmp_path: Path) -> None:
    build(tmp_path, "second", 2_000)
    assert "<title>second" in (await client.get("/a/bakery")).text
    assert (await client.get("/assets/second-1a2b.js")).status_code == 200
    (tmp_path / "index.html").unlink()
    answer = await client.get("/")
    assert (answer.status_code, "not built" in answer.text) == (503, True)
