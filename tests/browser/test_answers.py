"""What waits for a person, answered in the dashboard: at the thread, at its parent, and in the agency's inbox."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from playwright.async_api import expect

from tests.support.browser import Visitor
from tests.support.gateway_requests import create, finished
from tests.support.gateways import Server
from tests.support.page_parts import answer, at_agency, banner, call_states, calls_of, link, status
from tests.support.scripted_system import calls, charging, noted, noting, say, task
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_approved_call_runs_once(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    thread = create(http, agency, calls(charging(ledger, "bread")), say("paid"), agent="careful")
    page = await visitor.open(gateway, link(agency, thread))
    await expect(banner(page)).to_contain_text("1 call waits for you")
    await expect(banner(page)).to_contain_text("low risk")
    await expect(banner(page)).to_contain_text('"what": "bread"')
    await expect(status(page)).to_have_text("waits for you")
    await expect(page).to_have_title("(1) bakery · Agency")
    await banner(page).get_by_role("button", name="Approve", exact=True).click()
    await expect(answer(page)).to_have_text("paid")
    await expect(banner(page)).to_be_hidden()
    await expect(page).to_have_title("bakery · Agency")
    assert noted(ledger) == ["charge:bread"]


async def test_a_call_is_answered_by_keys(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    thread = create(http, agency, calls(charging(ledger, "bread")), say("paid"), agent="careful")
    page = await visitor.open(gateway, link(agency, thread))
    await expect(banner(page)).to_contain_text("1 call waits for you")
    await page.keyboard.press("w")
    await expect(banner(page).get_by_role("form", name="charge waits for you")).to_be_focused()
    await page.keyboard.press("d")
    await expect(banner(page).get_by_label("Why it is denied")).to_be_focused()
    await page.keyboard.press("Escape")
    await page.keyboard.press("a")
    await expect(answer(page)).to_have_text("paid")
    assert noted(ledger) == ["charge:bread"]


async def test_a_denied_call_never_runs_and_the_reason_is_told(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    thread = create(http, agency, calls(charging(ledger, "bread")), say("as you wish"), agent="careful")
    page = await visitor.open(gateway, link(agency, thread))
    await banner(page).get_by_role("button", name="Deny …").click()
    await page.keyboard.type("too much")
    await banner(page).get_by_role("button", name="Deny", exact=True).click()
    await expect(answer(page)).to_have_text("as you wish")
    await expect(call_states(page)).to_have_text("denied")
    await calls_of(page).locator("summary").click()
    await expect(calls_of(page)).to_contain_text("too much")
    assert ledger.read_text() == ""


async def test_an_edited_call_runs_with_the_new_arguments(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    thread = create(http, agency, calls(charging(ledger, "bread")), say("paid"), agent="careful")
    page = await visitor.open(gateway, link(agency, thread))
    await banner(page).get_by_role("button", name="Edit …").click()
    box = banner(page).get_by_label("Arguments as JSON")
    proposed = await box.input_value()
    await expect(banner(page)).to_contain_text("Fits the tool’s schema.")
    advices = {
        "{": "That is not JSON yet",
        "[1]": "The arguments are an object",
        proposed.replace('"bread"', "7"): "what",
    }
    for wrong, advice in advices.items():
        await box.fill(wrong)
        await expect(banner(page).get_by_role("status")).to_contain_text(advice)
        await banner(page).get_by_role("button", name="Approve with these arguments").click()
        await expect(banner(page).get_by_role("alert")).to_contain_text(advice)
    await box.fill(proposed.replace("bread", "cake"))
    await expect(banner(page)).to_contain_text("Fits the tool’s schema.")
    await banner(page).get_by_role("button", name="Approve with these arguments").click()
    await expect(answer(page)).to_have_text("paid")
    assert noted(ledger) == ["charge:cake"]


async def test_what_is_half_written_survives_what_happens_around_it(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    wanted = [charging(ledger, "bread"), charging(ledger, "cake")]
    thread = create(http, agency, calls(*wanted), say("paid"), agent="careful")
    page = await visitor.open(gateway, link(agency, thread))
    await expect(banner(page)).to_contain_text("2 calls wait for you")
    first, second = await banner(page).get_by_role("listitem").all()
    await first.get_by_role("button", name="Deny …").click()
    await page.keyboard.type("no b")
    await second.get_by_role("button", name="Approve", exact=True).dispatch_event("click")
    await expect(banner(page)).to_contain_text("1 call waits for you")
    await page.keyboard.type("read")
    await banner(page).get_by_role("button", name="Deny", exact=True).click()
    await expect(answer(page)).to_have_text("paid")
    await expect(call_states(page)).to_have_text(["denied", "done"])
    assert noted(ledger) == ["charge:cake"]
    assert "no bread" in str(http.get(f"/agency/{agency}/agent/{thread}/state").json())


async def test_what_a_child_waits_for_is_answered_at_its_parent(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    below = task(calls(charging(ledger, "bread")), say("paid"), to="careful")
    thread = create(http, agency, calls(below), say("all done"))
    page = await visitor.open(gateway, link(agency, thread))
    await expect(banner(page)).to_contain_text("asked by careful")
    await expect(status(page)).to_have_text("waits for subagents")
    await expect(calls_of(page).locator("summary + *, div").locator(".status")).to_have_text(["waits for you"])
    await banner(page).get_by_role("button", name="Approve", exact=True).click()
    await expect(answer(page)).to_have_text("all done")
    await expect(banner(page)).to_be_hidden()
    assert "charge:bread" in noted(ledger)


async def test_the_inbox_has_what_waits_in_all_threads(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    made = [
        create(http, agency, calls(charging(ledger, what)), say("paid"), agent="careful") for what in ("bread", "cake")
    ]
    page = await visitor.open(gateway, at_agency(agency))
    await expect(page.get_by_role("link", name="Inbox 2 waiting")).to_be_visible()
    await page.keyboard.press("i")
    inbox = page.get_by_role("region", name="Inbox")
    await expect(inbox).to_contain_text("2 calls wait for you")
    await expect(inbox.get_by_role("link", name="careful")).to_have_count(2)
    await inbox.get_by_role("button", name="Approve all").click()
    await expect(inbox).to_contain_text("Nothing waits for you.")
    for thread in made:
        assert finished(http, agency, thread)["status"] == "completed"
    assert sorted(noted(ledger)) == ["charge:bread", "charge:cake"]


async def test_a_run_that_has_used_up_its_limit_goes_on_when_it_is_lifted(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    thread = create(http, agency, calls(noting(ledger, "x")), say("done"), limits={"tokens": 10})
    page = await visitor.open(gateway, link(agency, thread))
    await expect(banner(page)).to_contain_text("It has used 15 tokens.")
    await banner(page).get_by_label("New limit in tokens").fill("1000")
    await banner(page).get_by_role("button", name="Go on").click()
    await expect(answer(page)).to_have_text("done")
    await expect(banner(page)).to_be_hidden()
    await eventually(lambda: finished(http, agency, thread)["status"] == "completed")


async def test_an_agency_that_has_used_up_its_budget_goes_on_when_it_is_raised(
    gateway: Server, http: httpx.Client, agency: str, ledger: Path, visitor: Visitor
) -> None:
    http.put(f"/agency/{agency}/budget", json={"costUsd": 0.01, "turns": 90})
    thread = create(http, agency, calls(noting(ledger, "x")), say("done"), agent="broker")
    page = await visitor.open(gateway, link(agency, thread))
    await expect(banner(page)).to_contain_text("The agency has used up its budget")
    await expect(page.locator("main > header")).to_contain_text("15 tokens · $0.015 · ")
    await banner(page).get_by_label("New budget of the agency in US dollars").fill("0.5")
    await banner(page).get_by_role("button", name="Go on").click()
    await expect(answer(page)).to_have_text("done")
    await expect(page.locator("main > header")).to_contain_text("priced:any")
    budget = http.get(f"/agency/{agency}/usage").json()["budget"]
    assert (budget["costUsd"], budget["turns"]) == (0.5, 90)


NOTES = """
  window.notes = [];
  window.Notification = class {
    static permission = "granted";
    static requestPermission = async () => "granted";
    constructor(title, { body }) { window.notes.push([title, body]); }
    close() {}
  };
  Object.defineProperty(document, "hidden", { get: () => window.away === true });
"""


async def test_who_looks_elsewhere_is_notified_if_that_is_wanted(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    await visitor.page.add_init_script(NOTES)
    page = await visitor.open(gateway, at_agency(agency))
    await page.get_by_role("button", name="Notify me when something waits for me").click()
    await expect(page.get_by_role("button", name="Stop notifying me")).to_be_visible()
    await expect(page.get_by_role("main")).to_contain_text("Start a thread")
    await page.evaluate("window.away = true")
    create(http, agency, calls(charging(ledger, "bread")), say("paid"), agent="careful")
    await expect(page).to_have_title("(1) bakery · Agency")
    assert await page.evaluate("window.notes") == [["careful waits for you", "charge"]]
