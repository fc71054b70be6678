"""The parts of the page, by what they are for people."""

from __future__ import annotations

from playwright.async_api import Locator, Page


def threads(page: Page) -> Locator:
    return page.get_by_role("navigation").get_by_role("link")


def answer(page: Page) -> Locator:
    """What the agent has said last."""
    return page.get_by_role("log").locator("[data-role=assistant] > .text").last


def status(page: Page) -> Locator:
    return page.get_by_role("main").locator("header .status")


def banner(page: Page) -> Locator:
    return page.get_by_role("region", name="Waiting for you")


def link(agency: str, thread: str) -> str:
    return f"#/{agency}/{thread}"


async def shown_events(page: Page) -> list[tuple[int, str]]:
    """What the list of events shows, oldest first."""
    rows = page.locator(".events li")
    shown = await rows.evaluate_all("all => all.map((li) => [li.dataset.seq, li.querySelector('.type').textContent])")
    return [(int(seq), kind) for seq, kind in reversed(shown)]
