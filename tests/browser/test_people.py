"""What people say to runs in the dashboard, beyond yes and no: answers in a tool's place, always, pauses, policies."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import httpx
import pytest
from playwright.async_api import expect

from tests.support.browser import Visitor
from tests.support.gateway_requests import create
from tests.support.gateways import Server
from tests.support.page_parts import answer, at_agency, banner, calls_of, link, status
from tests.support.scripted_system import calls, charging, holding, let_go, noted, noting, say
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_somebody_answers_in_the_tools_place(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    thread = create(http, agency, calls(charging(ledger, "bread")), say("so be it"), agent="careful")
    page = await visitor.open(gateway, link(agency, thread))
    await banner(page).get_by_role("button", name="Respond …").click()
    await banner(page).get_by_label("Result for the agent").fill("it was paid in cash")
    await banner(page).get_by_role("button", name="Respond", exact=True).click()
    await expect(answer(page)).to_have_text("so be it")
    await calls_of(page).locator("summary").click()
    await expect(calls_of(page)).to_contain_text("it was paid in cash")
    assert noted(ledger) == []


async def test_a_tool_that_is_approved_for_always_asks_no_more(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    lines = (calls(charging(ledger, "bread")), calls(charging(ledger, "cake")), say("both paid"))
    thread = create(http, agency, *lines, agent="careful")
    page = await visitor.open(gateway, link(agency, thread))
    await banner(page).get_by_role("button", name="Always approve").click()
    await expect(answer(page)).to_have_text("both paid")
    assert noted(ledger) == ["charge:bread", "charge:cake"]


async def test_a_run_is_paused_and_resumed(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    lines = (calls(holding(ledger, "slow")), calls(noting(ledger, "next")), say("done"))
    thread = create(http, agency, *lines)
    page = await visitor.open(gateway, link(agency, thread))
    async with page.expect_response("**/pause"):
        await page.get_by_role("button", name="Pause").click()
    let_go(ledger, "slow")
    await expect(page.get_by_role("button", name="Resume")).to_be_visible()
    assert "begin:next" not in noted(ledger)
    await page.get_by_role("button", name="Resume").click()
    await expect(answer(page)).to_have_text("done")
    await expect(status(page)).to_have_text("completed")


async def test_a_message_interrupts_the_run(gateway: Server, http: httpx.Client, agency: str, visitor: Visitor) -> None:
    thread = create(http, agency, say("never said", delay=60))
    page = await visitor.open(gateway, link(agency, thread))
    await expect(status(page)).to_have_text("running")
    body = {"messages": [{"content": '[{"text": "at once", "delay": 0}]'}], "when": "now"}
    assert http.post(f"/agency/{agency}/agent/{thread}/invoke", json=body).status_code == 202
    await expect(answer(page)).to_have_text("at once")
    await expect(status(page)).to_have_text("completed")


async def test_an_agencys_policy_is_set_and_asks_where_nobody_asked_before(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    page = await visitor.open(gateway, at_agency(agency, "settings"))
    form = page.get_by_role("form", name="Approval policy")
    await form.get_by_role("button", name="Add a rule").click()
    await form.get_by_label("Tool of rule 1").fill("charge")
    await form.get_by_label("Risk of rule 1").select_option("high")
    await form.get_by_role("button", name="Save the policy").click()
    await expect(page.get_by_role("form", name="Approval policy").get_by_label("Tool of rule 1")).to_have_value(
        "charge"
    )
    thread = create(http, agency, calls(charging(ledger, "bread")), say("paid"))
    await page.goto(f"{gateway.url}/{link(agency, thread)}")
    await expect(banner(page)).to_contain_text("high risk")
    await banner(page).get_by_role("button", name="Approve", exact=True).click()
    await expect(answer(page)).to_have_text("paid")
    rules = http.get(f"/agency/{agency}/policy").json()["rules"]
    assert [(rule["tool"], rule["risk"]) for rule in rules] == [("charge", "high")]


@pytest.mark.kills
async def test_a_row_says_what_was_decided_and_a_call_in_doubt_is_not_approved(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    both = calls(charging(ledger, "bread"), charging(ledger, "cake"))
    pay = ("pay", {"ledger": str(ledger), "what": "bill", "seconds": 60})
    thread = create(http, agency, both, calls(pay), say("all settled"), agent="careful")
    page = await visitor.open(gateway, link(agency, thread))
    first = banner(page).get_by_role("form").first
    await first.get_by_role("button", name="Edit …").click()
    arguments = first.get_by_label("Arguments as JSON")
    await arguments.fill((await arguments.input_value()).replace("bread", "rolls"))
    await first.get_by_role("button", name="Approve with these arguments").click()
    await expect(banner(page).get_by_role("form")).to_have_count(1)
    await banner(page).get_by_role("button", name="Respond …").click()
    await banner(page).get_by_label("Result for the agent").fill("paid in cash")
    await banner(page).get_by_role("button", name="Respond", exact=True).click()
    rows = calls_of(page)
    await expect(rows.nth(0)).to_contain_text("rolls")
    await expect(rows.nth(0).locator("summary")).to_contain_text("edited by a person")
    await expect(rows.nth(1).locator("summary")).to_contain_text("answered by a person")
    await expect(rows.nth(1).locator("summary")).to_contain_text("did not run")
    await rows.nth(0).locator("summary").click()
    await expect(rows.nth(0)).to_contain_text("Arguments that ran")
    await expect(rows.nth(0)).to_contain_text("Arguments as proposed")

    await eventually(lambda: noted(ledger) == ["charge:rolls", "pay:bill"])
    os.kill(int(ledger.read_text().splitlines()[-1].split()[2]), signal.SIGKILL)
    await expect(banner(page)).to_contain_text("in doubt: it may have happened")
    for name in ("Approve", "Always approve", "Edit …"):
        await expect(banner(page).get_by_role("button", name=name, exact=True)).to_have_count(0)
    await expect(banner(page).get_by_role("button", name="Run again")).to_be_visible()
    await page.get_by_role("group", name="What was said").evaluate("said => { said.scrollTop = 0; }")
    latest, waits = await page.get_by_role("button", name="Latest").bounding_box(), await banner(page).bounding_box()
    assert latest is not None and waits is not None and latest["y"] + latest["height"] <= waits["y"]

    await page.set_viewport_size({"width": 390, "height": 780})
    await page.get_by_role("link", name="Graph").click()
    await expect(banner(page).get_by_role("button", name="Decide")).to_be_visible()
    await expect(banner(page).get_by_role("button", name="Run again")).to_be_hidden()
    folded = await banner(page).bounding_box()
    assert folded is not None and folded["height"] < 60
    await banner(page).get_by_role("button", name="Decide").click()
    await banner(page).get_by_role("button", name="It did happen …").click()
    await banner(page).get_by_label("What it returned").fill('{"paid": true}')
    await banner(page).get_by_role("button", name="It did happen", exact=True).click()
    await page.get_by_role("link", name="Chat").click()
    await expect(answer(page)).to_have_text("all settled")
    await expect(rows.nth(2).locator("summary")).to_contain_text("did not run again")
    assert noted(ledger) == ["charge:rolls", "pay:bill"]


async def test_agents_that_run_risky_tools_unasked_are_marked(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    wrecker = {"name": "wrecker", "prompt": "You demolish.", "tags": ["demolition"]}
    assert http.post(f"/agency/{agency}/blueprints", json={**wrecker, "unattended": True}).status_code == 201
    thread = create(http, agency, say("gone"), agent="wrecker")
    page = await visitor.open(gateway, at_agency(agency, "blueprints/wrecker"))
    await expect(page.get_by_role("link", name="wrecker").first).to_contain_text("unattended: demolish")
    form = page.get_by_role("form", name="Blueprint wrecker")
    await expect(form.get_by_label("Unattended")).to_be_checked()
    await expect(form).to_contain_text("unattended: demolish")
    await page.goto(f"{gateway.url}/{link(agency, thread)}")
    await expect(page.locator("main > header")).to_contain_text("unattended: demolish")
