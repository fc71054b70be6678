"""The parts of the page, by what they are for people."""

from __future__ import annotations

from playwright.async_api import Locator, Page


def switcher(page: Page) -> Locator:
    """The button with the agency's name, which leads to the others."""
    return page.get_by_role("button", name="Agency: ")


def threads(page: Page) -> Locator:
    """The rows of the tree that are in sight."""
    return page.get_by_role("tree", name="Threads").get_by_role("treeitem")


def answer(page: Page) -> Locator:
    """What the agent has said last."""
    return page.get_by_role("log").locator("[data-role=assistant]:not([data-live]) > .text").last


def live(page: Page) -> Locator:
    """What the agent is saying."""
    return page.get_by_role("log").locator("[data-live]")


def status(page: Page) -> Locator:
    return page.locator("main > header .status")


def calls_of(page: Page) -> Locator:
    """The calls of tools in the transcript."""
    return page.get_by_role("log").locator("li[data-call]")


def call_states(page: Page) -> Locator:
    return calls_of(page).locator("summary .status")


def banner(page: Page) -> Locator:
    return page.get_by_role("region", name="Waiting for you")


def details(page: Page) -> Locator:
    return page.get_by_role("complementary", name="Plan, run and files")


def at_agency(agency: str, page: str = "") -> str:
    return f"a/{agency}/{page}".rstrip("/")


def link(agency: str, thread: str, tab: str = "") -> str:
    return f"a/{agency}/t/{thread}/{tab}".rstrip("/")


async def shown_events(page: Page) -> list[tuple[int, str]]:
    """What the list of events shows, all of it: the window is made high enough for that."""
    await page.get_by_role("link", name="Events", exact=True).click()
    size = page.viewport_size
    await page.set_viewport_size({"width": 1280, "height": 5_000})
    rows = page.locator("tr[data-seq]")
    await rows.last.wait_for()
    shown = await rows.evaluate_all("all => all.map((row) => [row.dataset.seq, row.dataset.type])")
    if size is not None:
        await page.set_viewport_size(size)
    return sorted((int(seq), kind) for seq, kind in shown)
