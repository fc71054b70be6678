"""A Chromium for tests, and a visitor with a page in it."""

from __future__ import annotations

import re
import shutil

import pytest
from playwright.async_api import ConsoleMessage, Page, Request

from tests.support.gateway_fixtures import agency as agency
from tests.support.gateway_fixtures import http as http
from tests.support.gateways import Server

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
        page.on("websocket", lambda socket: self.asked.add(host_of(socket.url)))

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
        self.asked.add(host_of(request.url))


def host_of(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]
