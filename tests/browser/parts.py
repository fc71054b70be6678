"""The parts of the page, by what they are for people."""

from __future__ import annotations

from playwright.async_api import Locator, Page


def threads(page: Page) -> Locator:
    return page.get_by_role("navigation").get_by_role("link")


def messages(page: Page) -> Locator:
    return page.get_by_role("log")


def status(page: Page) -> Locator:
    return page.get_by_role("main").locator("header .status")


def banner(page: Page) -> Locator:
    return page.get_by_role("region", name="Waiting for you")


def link(agency: str, thread: str) -> str:
    return f"#/{agency}/{thread}"


async def shown_events(page: Page) -> list[tuple[int, str]]:
    """What the list of events shows, oldest first."""
    rows = await page.locator(".events li").all()
    shown = [(await row.get_attribute("data-seq"), await row.locator(".type").text_content()) for row in rows]
    return [(int(seq or 0), kind or "") for seq, kind in reversed(shown)]
