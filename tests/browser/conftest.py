"""The dashboard in a real Chromium, against real gateways."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright, expect

from tests.dashboard.conftest import agency as agency
from tests.dashboard.conftest import http as http
from tests.gateways import Server

PATIENCE_MS = 20_000
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
AWAY = r"ERR_CONNECTION_|ERR_EMPTY_RESPONSE|WebSocket connection|status of 503"
"""What a browser notes in its console while a gateway is away."""


def chromium_path() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.fail("these tests need Chromium: `make setup` installs it, or `apt-get install chromium`", pytrace=False)
    return found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        yield browser
        await browser.close()


class Visitor:
    """Somebody with a browser of their own. Whatever the page complains about or asks others for is noted."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.asked: set[str] = set()
        self._forgiven = ""
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._note)
        page.on("websocket", lambda socket: self.asked.add(_host(socket.url)))

    async def open(self, server: Server, address: str = "") -> Page:
        await self.page.goto(f"{server.url}/{address}")
        return self.page

    def forgive(self, pattern: str) -> None:
        """These words in the console are what the test is about."""
        self._forgiven = pattern

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not (self._forgiven and re.search(self._forgiven, message.text)):
            self.complaints.append(message.text)

    def _note(self, request: Request) -> None:
        self.asked.add(_host(request.url))


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]


@pytest_asyncio.fixture(loop_scope="session")
async def visitor(chromium: Browser) -> AsyncIterator[Visitor]:
    """A visitor whose page must not have complained, and must not have asked anybody but its own gateway."""
    expect.set_options(timeout=PATIENCE_MS)
    context = await chromium.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE_MS)
    came = Visitor(await context.new_page())
    yield came
    own = _host(came.page.url)
    await context.close()
    assert came.complaints == []
    assert came.asked == {own}


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Where tools note what they do."""
    path = tmp_path / "ledger"
    path.touch()
    return path
