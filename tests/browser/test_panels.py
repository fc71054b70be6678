"""Panels that middleware bring: the page shows and does what they say, without knowing them; also below a path."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from playwright.async_api import expect

from tests.support.browser import Visitor
from tests.support.gateway_requests import create, finished
from tests.support.gateways import Server
from tests.support.page_parts import at_agency, link
from tests.support.programs import Program
from tests.support.scripted_system import say

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_panel_shows_what_its_route_answers_and_offers_its_actions(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    entries = f"/agency/{agency}/x/guests/entries"
    nasty = "<img src=x onerror=alert(1)>"
    http.post(entries, json={"guest": "Ada", "says": nasty})
    page = await visitor.open(gateway, at_agency(agency))
    await page.get_by_role("link", name="Guest book").click()
    row = page.get_by_role("row").filter(has_text="Ada")
    await expect(row).to_contain_text(nasty)
    await expect(page.get_by_role("columnheader")).to_have_text(["guest", "says", "stars", ""])

    await page.get_by_role("button", name="Write").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Guest").fill("Mallory")
    visitor.forgive("status of 400")
    await dialog.get_by_role("button", name="Write").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("has to stay outside")
    await dialog.get_by_label("Guest").fill("Grace")
    await dialog.get_by_label("Stars").fill("3")
    await dialog.get_by_label("Mood").select_option("sad")
    await dialog.get_by_label("Again").check()
    await dialog.get_by_role("button", name="Write").click()
    await expect(page.get_by_role("row").filter(has_text="Grace")).to_contain_text("3")
    (grace,) = [each for each in http.get(entries).json() if each["guest"] == "Grace"]
    assert (grace["mood"], grace["stars"], grace["again"]) == ("sad", 3, True)

    await row.get_by_role("button", name="Tear out").click()
    await expect(dialog).to_contain_text("Is that entry really to go?")
    await dialog.get_by_role("button", name="Tear out").click()
    await expect(row).to_have_count(0)
    assert [each["guest"] for each in http.get(entries).json()] == ["Grace"]

    await page.get_by_role("link", name="Guests in words").click()
    await expect(page.get_by_role("main").locator("strong")).to_have_text("1")
    await page.reload()
    await expect(page.get_by_role("main")).to_contain_text("1 guests came.")


async def test_the_page_works_below_the_path_at_which_an_app_has_mounted_it(
    program: Program, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(http, agency, say("hello"))
    finished(http, agency, thread)
    url = await asyncio.to_thread(program, "host", "/agents")
    page = visitor.page
    await page.goto(f"{url}/agents/{at_agency(agency)}")
    await page.get_by_role("link", name="clerk").first.click()
    await expect(page).to_have_url(f"{url}/agents/{link(agency, thread)}")
    await expect(page.get_by_role("main")).to_contain_text("hello")
    await page.get_by_role("link", name="Graph", exact=True).click()
    await page.reload()
    await expect(page.get_by_role("main").get_by_text("Loading …")).to_have_count(0)
    await page.get_by_role("link", name="Guest book").click()
    await expect(page.get_by_role("main")).to_contain_text("There is nothing yet.")
    assert page.url.startswith(f"{url}/agents/a/")
