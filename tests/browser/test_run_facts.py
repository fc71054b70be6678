"""What the page tells of a run beside the conversation: what it is doing, whom it waits for, who ended it."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from playwright.async_api import Locator, Page, expect

from tests.support.browser import Visitor
from tests.support.gateway_requests import create, finished
from tests.support.gateways import Server
from tests.support.page_parts import answer, link
from tests.support.scripted_system import calls, charging, holding, let_go, say, task

pytestmark = pytest.mark.asyncio(loop_scope="session")


def side(page: Page) -> Locator:
    return page.get_by_role("complementary", name="Plan, run and files")


async def test_the_page_tells_which_tool_is_at_work_and_where_the_result_comes_from(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    thread = create(http, agency, calls(holding(ledger, "slow")), say("done"))
    page = await visitor.open(gateway, link(agency, thread))
    await expect(side(page)).to_contain_text("hold is at work")
    let_go(ledger, "slow")
    await expect(answer(page)).to_have_text("done")
    await expect(side(page)).to_contain_text("the model's answer")
    await expect(side(page)).not_to_contain_text("at work")


async def test_the_page_leads_to_the_descendant_that_waits_for_a_person(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    asks = task(calls(charging(ledger, "bread")), say("paid"), to="careful")
    thread = create(http, agency, calls(task(calls(asks), say("had it paid"))), say("done"))
    waiting = finished(http, agency, thread)["meta"]["waitingFor"]["threadId"]
    page = await visitor.open(gateway, link(agency, thread))
    await expect(side(page)).to_contain_text("Waits for you")
    await side(page).get_by_role("term").filter(has_text="Waits for you").locator("..").get_by_role("link").click()
    await expect(page).to_have_url(f"{gateway.url}/{link(agency, waiting)}")


async def test_the_page_names_who_canceled_a_run_and_what_it_used(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    thread = create(http, agency, calls(task(calls(holding(ledger, "slow")), say("never"))), say("never"))
    while not (children := http.get(f"/agency/{agency}/agents?parent={thread}").json()["agents"]):
        pass
    page = await visitor.open(gateway, link(agency, thread))
    await page.get_by_role("button", name="Stop").click()
    await expect(side(page)).to_contain_text("Canceled by")
    await expect(side(page)).to_contain_text("a person")
    await expect(side(page)).to_contain_text("subagent worker")
    finished(http, agency, children[0]["id"])
    await visitor.open(gateway, link(agency, children[0]["id"]))
    await expect(side(page)).to_contain_text("its parent")
