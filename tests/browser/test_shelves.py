"""Shelves on the page: what is there, what people put there, and two who change the same entry."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.support.browser import Visitor
from tests.support.gateways import Server
from tests.support.page_parts import at_agency

pytestmark = pytest.mark.asyncio(loop_scope="session")

RECIPE = "# Rye\n\n- flour\n- **water**\n"


def put(http: httpx.Client, agency: str, path: str, content: str | bytes, shelf: str = "recipes") -> str:
    answer = http.put(f"/agency/{agency}/shelf/{shelf}/{path}", content=content)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["version"])


def read(http: httpx.Client, agency: str, path: str, shelf: str = "recipes") -> bytes:
    answer = http.get(f"/agency/{agency}/shelf/{shelf}/{path}")
    assert answer.status_code == 200, answer.text
    return answer.content


async def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("AGENCY_PICTURES"):
        await page.screenshot(path=Path(folder) / f"{name}.png")


async def choose(page: Page, name: str) -> None:
    await page.get_by_role("navigation", name="Shelves").get_by_role("button", name=name).click()


async def test_shelves_are_found_read_filled_and_emptied(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    put(http, agency, "bread/rye.md", RECIPE)
    put(http, agency, "bread/über uns.txt", "sieben Brötchen")
    put(http, agency, "index.json", '{"rye": 1}', shelf="memory")
    page = await visitor.open(gateway, at_agency(agency))
    await page.get_by_role("link", name="Shelves").click()
    side = page.get_by_role("navigation", name="Shelves")
    await expect(side.get_by_role("link")).to_contain_text(["memory", "recipes"])
    await side.get_by_role("link", name="recipes").click()
    await expect(side.get_by_role("status")).to_have_text("2 entries")

    await choose(page, "rye.md")
    shown = page.get_by_role("region", name="bread/rye.md", exact=True)
    await expect(shown.get_by_role("heading", name="Rye", exact=True)).to_be_visible()
    await expect(shown).to_contain_text("version 1")
    await picture(page, "shelves")
    await choose(page, "über uns.txt")
    await expect(page.get_by_role("region", name="Text of bread/über uns.txt")).to_have_text("sieben Brötchen")

    chosen = {"name": "oats.txt", "mimeType": "text/plain", "buffer": b"oats"}
    picker = page.get_by_label("Files to put on the shelf")
    await picker.set_input_files([chosen])  # type: ignore[arg-type]  # that is what it takes
    await expect(page.get_by_role("region", name="Text of oats.txt")).to_have_text("oats")
    assert read(http, agency, "oats.txt") == b"oats"
    await side.get_by_role("searchbox").fill("bread/")
    await expect(side.get_by_role("status")).to_have_text("2 entries")

    await page.get_by_role("button", name="New entry").click()
    form = page.get_by_role("dialog", name="New entry")
    await form.get_by_label("Shelf").fill("skills")
    await form.get_by_label("Path").fill("bake.md")
    await form.get_by_label("Text").fill("Bake it.")
    await form.get_by_role("button", name="Put it there").click()
    await expect(side.get_by_role("link", name="skills")).to_have_attribute("aria-current", "page")
    assert read(http, agency, "bake.md", "skills") == b"Bake it."

    await page.get_by_role("button", name="Delete bake.md").click()
    asked = page.get_by_role("dialog", name="Delete bake.md?")
    await picture(page, "shelves-delete")
    await asked.get_by_role("button", name="Delete", exact=True).click()
    await expect(side.get_by_role("link", name="skills")).to_have_count(0)
    assert http.get(f"/agency/{agency}/shelf/skills/bake.md").status_code == 404


async def test_of_two_who_change_an_entry_the_second_is_shown_the_conflict(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    visitor.forgive("status of 412")
    put(http, agency, "rye.md", RECIPE)
    page = await visitor.open(gateway, f"{at_agency(agency, 'shelves/recipes')}?entry=rye.md")
    await page.get_by_role("tab", name="Edit").click()
    text = page.get_by_role("textbox", name="Text")
    await text.fill("# Mine")
    put(http, agency, "rye.md", "# Theirs")
    await page.get_by_role("button", name="Save").click()
    conflict = page.get_by_role("alert").filter(has_text="changed meanwhile")
    await expect(conflict).to_contain_text("you began with version 1, now it is 2")
    await expect(text).to_have_value("# Mine")
    assert read(http, agency, "rye.md") == b"# Theirs"
    await picture(page, "shelves-conflict")
    await page.get_by_role("button", name="Overwrite it with mine").click()
    await expect(page.get_by_role("form", name="Edit rye.md").get_by_role("status")).to_have_text("Saved as version 3.")
    assert read(http, agency, "rye.md") == b"# Mine"

    # One who only looks sees the newer one by itself.
    put(http, agency, "rye.md", "# Later")
    await page.get_by_role("tab", name="Text").click()
    await expect(page.get_by_role("region", name="Text of rye.md")).to_have_text("# Later")


async def test_a_viewer_reads_and_is_told_that_it_may_not_write(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    put(http, agency, "rye.md", RECIPE)
    made = http.post(f"/agency/{agency}/keys", json={"name": "viewer", "role": "viewer"}).json()["key"]
    await visitor.page.add_init_script(f"sessionStorage.setItem('agency.secret', {made!r})")
    visitor.forgive("status of 403")
    page = await visitor.open(gateway, f"{at_agency(agency, 'shelves/recipes')}?entry=rye.md")
    await expect(page.get_by_role("heading", name="Rye", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Delete rye.md").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("role")
    assert read(http, agency, "rye.md") == RECIPE.encode()
