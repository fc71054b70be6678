"""The dashboard in a real Chromium, against real gateways."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from tests.support.browser import ARGUMENTS, PATIENCE_MS, Visitor, chromium_path, host_of
from tests.support.gateway_fixtures import agency, http
from tests.support.programs import program

__all__ = ["agency", "chromium", "http", "program", "visitor"]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def visitor(chromium: Browser) -> AsyncIterator[Visitor]:
    """A visitor whose page must not have complained, and must not have asked anybody but its own gateway."""
    expect.set_options(timeout=PATIENCE_MS)
    context = await chromium.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE_MS)
    came = Visitor(await context.new_page())
    yield came
    own = host_of(came.page.url)
    await context.close()
    assert came.complaints == []
    assert came.asked == {own}
