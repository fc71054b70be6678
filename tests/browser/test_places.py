"""What is around the threads: agencies, blueprints, budgets, keys, hosts."""

from __future__ import annotations

import httpx
import pytest
from playwright.async_api import expect

from tests.support.browser import Visitor
from tests.support.gateway_requests import create, finished
from tests.support.gateways import Server
from tests.support.page_parts import at_agency, link, switcher, threads
from tests.support.scripted_system import say

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_agency_is_made_renamed_and_deleted_here(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    page = await visitor.open(gateway, at_agency(agency))
    await switcher(page).click()
    await page.get_by_role("menuitem", name="New agency …").click()
    await page.get_by_role("textbox", name="Name").fill("The new one")
    await page.get_by_role("button", name="Create").click()
    await expect(switcher(page)).to_have_text("The new one")
    await expect(page.get_by_role("main")).to_contain_text("Start a thread")
    made = page.url.rpartition("/")[2]
    await switcher(page).click()
    await page.get_by_role("menuitem", name="Rename …").click()
    await page.get_by_role("textbox", name="Name").fill("The old one")
    await page.keyboard.press("Enter")
    await expect(switcher(page)).to_have_text("The old one")
    assert http.get(f"/agency/{made}").json()["name"] == "The old one"
    await switcher(page).click()
    await page.get_by_role("menuitem", name="Delete …").click()
    visitor.forgive("status of 404")
    await page.get_by_role("button", name="Delete “The old one”").click()
    await expect(page).not_to_have_url(f"{gateway.url}/{at_agency(made)}")
    assert http.get(f"/agency/{made}").status_code == 404


async def test_a_thread_is_deleted_here(gateway: Server, http: httpx.Client, agency: str, visitor: Visitor) -> None:
    thread = create(http, agency, say("hello"))
    finished(http, agency, thread)
    page = await visitor.open(gateway, link(agency, thread))
    visitor.forgive("status of 404|response code: 404")  # its state and its feed may be asked for once more
    await page.get_by_role("main").get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Delete …").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    await expect(page).to_have_url(f"{gateway.url}/{at_agency(agency)}")
    await expect(threads(page)).to_have_count(0)
    assert http.get(f"/agency/{agency}/agent/{thread}").status_code == 404


async def test_a_blueprint_is_checked_saved_and_taken_back(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    page = await visitor.open(gateway, at_agency(agency, "blueprints"))
    await page.get_by_role("list", name="Blueprints").get_by_role("link", name="clerk").click()
    form = page.get_by_role("form", name="Blueprint clerk")
    await form.get_by_label("Prompt").fill("You are another clerk.")
    await form.get_by_label("Model", exact=True).fill("no model")
    await form.get_by_role("button", name="Save").click()
    await expect(form.get_by_role("alert")).to_contain_text("provider:model")
    await form.get_by_label("Model", exact=True).fill("")
    await form.get_by_text("Configuration, parameters").click()
    await form.get_by_label("Configuration of middleware").fill('{"subagents": {"nonsense": 1}}')
    visitor.forgive("status of 400")
    await form.get_by_role("button", name="Save").click()
    await expect(form.get_by_role("alert")).to_contain_text("subagents")
    await form.get_by_label("Configuration of middleware").fill('{"crystal_ball": {}}')
    await form.get_by_role("button", name="Save").click()
    await expect(form.get_by_role("list", name="What has no effect")).to_contain_text("config.crystal_ball")
    await form.get_by_label("Configuration of middleware").fill("")
    await form.get_by_role("button", name="Save").click()
    await expect(form.get_by_role("status")).to_contain_text("Saved.")
    await expect(form.get_by_role("list", name="What has no effect")).to_have_count(0)
    await expect(page.get_by_role("list", name="Blueprints").get_by_role("link", name="clerk")).to_contain_text("own")
    found = {each["name"]: each for each in http.get(f"/agency/{agency}/blueprints").json()["blueprints"]}
    assert found["clerk"]["prompt"] == "You are another clerk."
    await form.get_by_role("button", name="Remove …").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    await expect(page.get_by_role("main")).to_contain_text("Choose a blueprint.")
    found = {each["name"]: each for each in http.get(f"/agency/{agency}/blueprints").json()["blueprints"]}
    assert found["clerk"]["prompt"] == "clerk"


async def test_budgets_and_keys_are_kept_here(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    visitor.forgive("status of 404")  # of gateways without policies
    page = await visitor.open(gateway, at_agency(agency, "settings"))
    budget = page.get_by_role("form", name="Budget")
    await budget.get_by_label("Tokens, at most").fill("5000")
    await budget.get_by_role("button", name="Save the budget").click()
    await expect(page.get_by_role("main")).to_contain_text("of 5,000")
    assert http.get(f"/agency/{agency}/usage").json()["budget"]["tokens"] == 5000
    keys = page.get_by_role("region", name="Keys")
    await keys.get_by_label("Name").fill("the shop")
    await keys.get_by_role("button", name="Create a key").click()
    shown = await keys.locator("code").text_content()
    assert shown is not None
    assert http.get("/agencies", headers={"Authorization": f"Bearer {shown}"}).json()["agencies"][0]["id"] == agency
    await keys.get_by_role("button", name="Revoke the shop").click()
    await page.get_by_role("button", name="Revoke “the shop”").click()
    await expect(keys.get_by_role("row")).to_have_count(0)
    assert http.get("/agencies", headers={"Authorization": f"Bearer {shown}"}).status_code == 401


async def test_the_cluster_shows_hosts_and_who_lives_there(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(http, agency, say("hello"))
    finished(http, agency, thread)
    page = await visitor.open(gateway, "cluster")
    await expect(page.get_by_role("main").get_by_role("status")).to_have_text("ready")
    await expect(page.get_by_role("row").nth(1)).to_contain_text("ready")
    await page.locator("summary").evaluate_all("all => all.forEach((each) => each.click())")
    await page.get_by_role("link", name=thread).click()
    await expect(page).to_have_url(f"{gateway.url}/{link(agency, thread)}")


async def test_a_key_sees_its_own_agency_and_no_hosts(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    made = http.post(f"/agency/{agency}/keys", json={"name": "viewer", "role": "viewer"}).json()["key"]
    await visitor.page.add_init_script(f"sessionStorage.setItem('agency.secret', {made!r})")
    visitor.forgive("status of 403")
    page = await visitor.open(gateway, "cluster")
    await expect(page.get_by_role("main")).to_contain_text("This needs the installation's secret")
    await switcher(page).click()
    await expect(page.get_by_role("menuitemradio")).to_have_count(1)
