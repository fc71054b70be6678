"""After something went wrong: a failed run is tried again, plan and files are edited, threads are compared, and the API
is at hand."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from playwright.async_api import expect

from tests.support.browser import Visitor
from tests.support.gateway_requests import create, finished, message, stored
from tests.support.gateways import Server
from tests.support.scripted_system import calls, say
from tests.support.thread_views import node_rows, view

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_failed_run_is_tried_again_and_each_attempt_of_a_call_is_drawn(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    flaky = calls(("flaky", {"ledger": str(ledger), "what": "oven", "after_ms": 1}))
    thread = create(http, agency, flaky)  # and the model has no second line
    assert finished(http, agency, thread)["status"] == "error"
    page = await visitor.open(gateway, view(agency, thread, "graph"))
    tools = node_rows(page).and_(page.locator("[data-kind=tool]"))
    await expect(tools).to_have_count(2)
    assert [await tools.nth(n).get_attribute("data-status") for n in (0, 1)] == ["failed", "done"]
    await expect(tools.nth(1)).to_contain_text("flaky (attempt 2)")

    await page.get_by_role("button", name="Retry").click()
    await expect(node_rows(page).and_(page.locator("[data-kind=run]"))).to_have_count(2)
    events = stored(http, agency, thread)
    assert [e["data"].get("retryOf") for e in events if e["type"] == "request.accepted"] == [None, f"{thread}.1"]
    assert [e["data"]["attempt"] for e in events if e["type"] == "tool.retried"] == [2]


async def test_plan_and_files_are_edited_and_a_fork_is_compared_with_its_original(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(http, agency, say("Rye it is."), files={"/note.md": "rye"})
    finished(http, agency, thread)
    page = await visitor.open(gateway, f"a/{agency}/t/{thread}")
    await page.get_by_role("button", name="Edit the plan").click()
    await page.get_by_role("textbox", name="Step 1").fill("Ask the baker")
    await page.get_by_role("button", name="Save").click()
    plan = page.get_by_role("complementary", name="Plan, run and files")
    await expect(plan).to_contain_text("Ask the baker")

    await page.goto(f"{gateway.url}/{view(agency, thread, 'files')}?file=/note.md")
    await page.get_by_role("tab", name="Edit").click()
    await page.get_by_role("textbox", name="Text").fill("wheat")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("form", name="Edit /note.md").get_by_role("status")).to_contain_text("Saved.")
    kept = http.get(f"/agency/{agency}/agent/{thread}/state").json()["state"]
    assert (kept["files"], kept["todos"][0]["content"]) == ({"/note.md": "wheat"}, "Ask the baker")
    edited = [e["data"]["part"] for e in stored(http, agency, thread) if e["type"] == "state.edited"]
    assert edited == ["files", "todos", "files"]

    fork = http.post(f"/agency/{agency}/agent/{thread}/fork", json={"messages": message(say("Wheat after all."))})
    other = fork.json()["id"]
    finished(http, agency, other)
    await page.goto(f"{gateway.url}/a/{agency}/t/{other}")
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Compare").click()
    await expect(page).to_have_url(re.compile(rf"/compare\?a={thread}&b={other}$"))
    shown = page.get_by_role("region", name="Comparison")
    await expect(shown).to_contain_text(re.compile(r"The right one was forked after event \d+ of the other"))
    await expect(shown.get_by_role("list", name="Messages of both")).to_contain_text("Wheat after all.")
    await expect(shown.get_by_role("row", name="Tokens")).to_contain_text("15")


async def test_the_api_is_shown_and_tried_without_a_request_elsewhere(
    gateway: Server, agency: str, visitor: Visitor
) -> None:
    page = await visitor.open(gateway, "docs")
    await page.get_by_role("searchbox", name="Search operations").fill("GET /agency/{agency_id}/agents")
    await page.get_by_role("region", name="threads").get_by_role("button").first.click()
    await page.get_by_text("Try it").click()
    await page.get_by_label("agency_id *").fill(agency)
    await page.get_by_role("button", name="GET it").click()
    await expect(page.get_by_role("status").filter(has_text="200")).to_contain_text('"agents"')
    assert visitor.asked == {gateway.url.removeprefix("http://")}
