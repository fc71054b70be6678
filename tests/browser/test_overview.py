"""The page over all threads of an agency: titles, search, plots, requests in the inbox, live blueprints, providers.

AGENCY_PICTURES=folder keeps the pictures there.
"""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.support.browser import Visitor
from tests.support.gateway_requests import create, finished
from tests.support.gateways import Server
from tests.support.page_parts import at_agency, calls_of, details, link, threads
from tests.support.scripted_system import calls, say

pytestmark = pytest.mark.asyncio(loop_scope="session")

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 800}
STEPS = [{"content": "Ask the baker", "status": "completed"}, {"content": "Bake rye bread", "status": "in_progress"}]


class Album:
    """Pictures of a page: at a desk in light and dark, and on a phone, where nothing may be wider than the phone."""

    def __init__(self, page: Page, folder: Path) -> None:
        self._page = page
        self._folder = folder

    async def take(self, name: str) -> None:
        page = self._page
        for scheme, size in (("light", DESK), ("dark", DESK), ("light", PHONE)):
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]  # a Literal
            await page.set_viewport_size(size)  # type: ignore[arg-type]  # a TypedDict
            kind = "phone" if size is PHONE else scheme
            await page.screenshot(path=self._folder / f"{name}-{kind}.png", animations="disabled")
        assert await page.evaluate("document.documentElement.scrollWidth") == PHONE["width"], name
        await page.set_viewport_size(DESK)  # type: ignore[arg-type]  # a TypedDict


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kept = Path(os.environ.get("AGENCY_PICTURES", tmp_path))
    kept.mkdir(parents=True, exist_ok=True)
    return kept


async def test_an_agency_is_seen_as_a_whole(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, tmp_path: Path, folder: Path
) -> None:
    plan = calls(("write_todos", {"todos": STEPS}))
    bread = create(http, agency, plan, calls(("no_such_tool", {})), say("Sourdough needs patience.\n\nReally."))
    finished(http, agency, bread)
    charge = calls(("charge", {"ledger": str(tmp_path / "ledger"), "what": "bread"}))
    order = create(http, agency, charge, say("paid"), agent="careful")
    finished(http, agency, order)
    page, album = visitor.page, Album(visitor.page, folder)

    # Plots, with the numbers as tables.
    await visitor.open(gateway, at_agency(agency))
    statistics = page.get_by_role("region", name="Statistics")
    runs = statistics.get_by_role("figure", name="Runs")
    await expect(runs).to_contain_text("Runs 1")
    await expect(statistics.get_by_role("figure", name="Errors by tool")).to_contain_text("no_such_tool1 of 1")
    await runs.get_by_text("As a table").click()
    await expect(runs.get_by_role("row")).to_have_count(25)
    await runs.get_by_text("As a table").click()
    await statistics.get_by_role("button", name="30 days").click()
    await expect(runs.get_by_role("img")).to_have_accessible_name("Runs by day: 1. The numbers are in the table below.")
    await album.take("overview")
    await statistics.get_by_role("combobox", name="Agent").select_option("careful")
    await expect(statistics).to_contain_text("No tool was called.")

    # A thread is renamed, and found by its title and by what was said in it.
    await visitor.open(gateway, link(agency, bread))
    await page.locator("main > header").get_by_title("Rename the thread").click()
    await page.get_by_label("Title").fill("Bread for Monday")
    await page.get_by_role("button", name="Rename", exact=True).click()
    await expect(threads(page).filter(has_text="Bread for Monday")).to_have_count(1)
    await page.get_by_label("Search threads").fill("sourdough pat")
    hits = page.get_by_role("region", name="Said in threads")
    await expect(hits.get_by_role("link")).to_have_count(1)
    await expect(hits.locator("mark").first).to_have_text("Sourdough")
    await page.screenshot(path=folder / "search.png")
    await hits.get_by_role("link").click()

    # A plan is a list, and time is told apart.
    await expect(calls_of(page).first.locator("summary")).to_contain_text("1 of 2 done · now: Bake rye bread")
    await calls_of(page).first.locator("summary").click()
    await expect(calls_of(page).first.get_by_role("listitem").filter(has_text="Ask the baker")).to_be_visible()
    await expect(details(page)).to_contain_text("Working time")
    await album.take("plan")
    for tab in ("graph", "timeline", "events"):
        await visitor.open(gateway, link(agency, bread, tab))
        await expect(page.get_by_role("main").get_by_text("Loading")).to_have_count(0)
        await album.take(tab)

    # The inbox says what a call is about.
    http.patch(f"/agency/{agency}/agent/{order}", json={"title": "The order of Petersen"})
    await visitor.open(gateway, at_agency(agency, "inbox"))
    inbox = page.get_by_role("region", name="Inbox")
    await expect(inbox.get_by_role("link", name="The order of Petersen")).to_be_visible()
    await expect(inbox.get_by_role("blockquote")).to_contain_text("charge")
    await album.take("inbox")


async def test_what_a_blueprint_leads_to_is_shown_while_it_is_written_and_providers_are_kept_here(
    gateway: Server, agency: str, visitor: Visitor, folder: Path
) -> None:
    page, album = visitor.page, Album(visitor.page, folder)
    await visitor.open(gateway, at_agency(agency, "blueprints/clerk"))
    gets = page.get_by_role("region", name="What the agent gets")
    await expect(gets).to_contain_text("write_todos of planning")
    await page.get_by_label("Tags, which bring tools and middleware").fill("default, hitl, oven")
    await expect(gets).to_contain_text("hitl by hitl")
    await expect(gets).to_contain_text("oven")
    await gets.get_by_role("button", name="default", exact=True).click()
    await expect(gets).not_to_contain_text("write_todos of planning")
    await page.get_by_label("Middleware besides, by name").fill("planning")
    await expect(gets).to_contain_text("planning by name")
    await expect(gets).to_contain_text("write_todos of planning")
    await page.get_by_label("Model", exact=True).fill("nowhere:big")
    await expect(gets.get_by_role("status")).to_contain_text("nowhere")
    await album.take("blueprint")

    await visitor.open(gateway, at_agency(agency, "settings"))
    card = page.get_by_role("region", name="Providers")
    await expect(card.get_by_role("row").filter(has_text="demo")).to_contain_text("the code")
    await card.get_by_label("Name").fill("mine")
    await card.get_by_label("Address").fill("http://127.0.0.1:9/v1")
    await card.get_by_role("button", name="Add a provider").click()
    row = card.get_by_role("row").filter(has_text="127.0.0.1:9")
    await expect(row).to_contain_text("this agency")
    await album.take("settings")
    await row.get_by_role("button", name="Remove mine").click()
    await page.get_by_role("button", name="Remove “mine”").click()
    await expect(row).to_have_count(0)
