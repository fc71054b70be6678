"""The dashboard as people use it: looking, talking, answering."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from playwright.async_api import expect

from tests.actors.shop import calls, noting, say, script, task
from tests.actors.waiting import eventually
from tests.browser.conftest import Visitor
from tests.browser.parts import answer, banner, link, shown_events, status, threads
from tests.dashboard.talking import create, finished, stored
from tests.gateways import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger"
    path.touch()
    return path


def charging(ledger: Path, what: str) -> tuple[str, dict[str, object]]:
    return "charge", {"ledger": str(ledger), "what": what}


# Looking.


async def test_the_page_shows_agencies_and_their_threads_as_a_tree(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    first = create(http, agency, calls(task(say("found it"))), say("all done"))
    finished(http, agency, first)
    second = create(http, agency, say("hello"), agent="careful")
    finished(http, agency, second)

    page = await visitor.open(gateway)
    await page.get_by_label("Agency", exact=True).select_option(agency)
    await expect(threads(page)).to_contain_text(["careful", "clerk", "worker"])
    await expect(page.locator(".tree > li").nth(1).locator("li")).to_contain_text(["worker"])
    await expect(page.locator(".tree .status")).to_have_text(["completed"] * 3)
    await expect(page).to_have_url(f"{gateway.url}/{link(agency, second)}")
    await expect(answer(page)).to_have_text("hello")


async def test_an_agency_without_threads_and_a_thread_without_messages_say_what_to_do(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    page = await visitor.open(gateway, f"#/{agency}")
    await expect(page.get_by_role("main")).to_contain_text("Start a thread")
    thread = create(http, agency)
    await expect(threads(page)).to_have_count(1)
    await expect(page).to_have_url(f"{gateway.url}/{link(agency, thread)}")
    await expect(page.get_by_role("main")).to_contain_text("Write the first message below")


async def test_a_deep_link_opens_its_thread_and_the_history_leads_back(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(http, agency, calls(task(say("found it"))), say("all done"))
    finished(http, agency, thread)
    child = http.get(f"/agency/{agency}/agents", params={"parent": thread}).json()["agents"][0]["id"]

    page = await visitor.open(gateway, link(agency, child))
    await expect(page.get_by_role("log").locator(".who").first).to_have_text("clerk")
    await expect(answer(page)).to_have_text("found it")
    await page.get_by_role("main").get_by_role("link", name="clerk").click()
    await expect(answer(page)).to_have_text("all done")
    await page.get_by_role("link", name="worker’s thread").click()
    await expect(page).to_have_url(f"{gateway.url}/{link(agency, child)}")
    await page.go_back()
    await expect(answer(page)).to_have_text("all done")
    await expect(threads(page).and_(page.locator("[aria-current]"))).to_contain_text("clerk")


async def test_a_link_to_what_is_not_there_says_so(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    visitor.forgive("status of 404")
    page = await visitor.open(gateway, link(agency, "nobody"))
    await expect(page.get_by_role("main")).to_contain_text("Choose another one on the left")


async def test_a_thread_that_is_deleted_while_it_is_open_says_so(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(http, agency, say("hello"))
    finished(http, agency, thread)
    page = await visitor.open(gateway, link(agency, thread))
    await expect(answer(page)).to_have_text("hello")
    visitor.forgive("status of 404")
    http.delete(f"/agency/{agency}/agent/{thread}")
    await expect(page.get_by_role("main")).to_contain_text("Choose another one on the left")


async def test_plan_files_and_events_are_shown_as_they_change(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    thread = create(http, agency)
    page = await visitor.open(gateway, link(agency, thread))
    details = page.get_by_role("complementary")
    await expect(details).to_contain_text("No plan yet.")
    lines = script(
        calls(("write_todos", {"todos": [{"content": "bake", "status": "in_progress"}]})),
        calls(("write_file", {"path": "/report.md", "content": "# Bread\n\n- rye\n- **spelt**\n"})),
        say("done"),
    )
    http.post(f"/agency/{agency}/agent/{thread}/invoke", json={"messages": [{"role": "user", "content": lines}]})
    await expect(details.locator(".plan")).to_have_text("bake (in progress)")
    await details.get_by_role("button", name="/report.md").click()
    file = page.get_by_role("dialog", name="/report.md")
    await expect(file.get_by_role("heading", name="Bread")).to_be_visible()
    await expect(file.get_by_role("listitem")).to_have_text(["rye", "spelt"])
    await page.keyboard.press("Escape")
    await expect(file).to_have_count(0)
    await expect(status(page)).to_have_text("completed")
    assert await shown_events(page) == [(each["seq"], each["type"]) for each in stored(http, agency, thread)]


async def test_on_a_phone_there_is_one_thing_at_a_time(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(http, agency, say("hello"))
    finished(http, agency, thread)
    await visitor.page.set_viewport_size({"width": 390, "height": 844})
    page = await visitor.open(gateway, f"#/{agency}")
    await threads(page).click()
    await expect(answer(page)).to_have_text("hello")
    await expect(threads(page)).to_be_hidden()
    await page.get_by_role("button", name="Details").click()
    await expect(page.get_by_role("complementary")).to_contain_text("agent.completed")
    await expect(answer(page)).to_be_hidden()
    assert await page.evaluate("document.documentElement.scrollWidth") == 390


# Talking.


async def test_a_thread_that_is_made_here_answers_here_word_by_word(
    gateway: Server, agency: str, visitor: Visitor
) -> None:
    page = await visitor.open(gateway, f"#/{agency}")
    await page.get_by_role("main").get_by_role("button", name="New thread").click()
    dialog = page.get_by_role("dialog", name="New thread")
    options = dialog.get_by_role("option")
    await expect(options.filter(has_text="clerk")).to_have_count(1)
    await expect(options.filter(has_text="retired")).to_have_count(0)
    await dialog.get_by_label("Agent").select_option("clerk")
    await expect(dialog).to_contain_text("Does what it is told.")
    await dialog.get_by_label("First message").fill(script(say("the **whole** answer", words=40, delay=4)))
    await dialog.get_by_role("button", name="Start").click()

    live = page.locator(".live")
    await expect(live).to_contain_text("word3")
    assert "word39" not in await live.inner_text()
    await expect(status(page)).to_have_text("running")
    await expect(answer(page)).to_have_text("the whole answer")
    await expect(answer(page).locator("strong")).to_have_text("whole")
    await expect(live).to_be_hidden()
    await expect(status(page)).to_have_text("completed")
    await expect(page.get_by_role("main").locator(".figures")).to_contain_text("1 turn · 15 tokens")
    await expect(page.locator(".tree .status")).to_have_text("completed")


async def test_enter_sends_and_what_is_said_during_a_run_joins_it(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    thread = create(http, agency)
    page = await visitor.open(gateway, link(agency, thread))
    box = page.get_by_role("textbox", name="Message")
    await box.fill(script(calls(noting(ledger, "slow", 3)), say("never said")))
    await box.press("Enter")
    await expect(page.locator(".call .status")).to_have_text("running")
    await box.fill(script(say("I have joined")))
    await box.press("Enter")
    await expect(page.locator(".entry.sent")).to_contain_text("joins at the next step")
    await expect(box).to_have_value("")
    await expect(answer(page)).to_have_text("I have joined")
    await expect(page.locator(".entry.sent")).to_have_count(0)
    await expect(page.get_by_role("log").locator("[data-role=user]")).to_have_count(2)
    await expect(page.locator(".call .status")).to_have_text("done")
    await page.locator(".call summary").click()
    await expect(page.locator(".call")).to_contain_text("noted slow")
    assert finished(http, agency, thread)["runId"].endswith(".1")


async def test_a_run_is_stopped_by_its_button(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(http, agency, say("too late", delay=60))
    page = await visitor.open(gateway, link(agency, thread))
    await page.get_by_role("button", name="Stop").click()
    await expect(status(page)).to_have_text("canceled")
    await expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    await expect(page.get_by_role("main")).to_contain_text("The run was canceled. A new message begins another.")
    assert finished(http, agency, thread)["status"] == "canceled"


async def test_an_agency_is_made_here(gateway: Server, http: httpx.Client, agency: str, visitor: Visitor) -> None:
    page = await visitor.open(gateway, f"#/{agency}")
    await page.get_by_role("button", name="New agency").click()
    await page.get_by_label("Name").fill("The new one")
    await page.get_by_role("button", name="Create").click()
    await expect(page.locator("#agencies option:checked")).to_have_text("The new one")
    await expect(page.get_by_role("main")).to_contain_text("Start a thread")
    assert "The new one" in {each["name"] for each in http.get("/agencies?limit=900").json()["agencies"]}


# Answering.


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
    await banner(page).get_by_role("button", name="Approve").click()
    await expect(answer(page)).to_have_text("paid")
    await expect(banner(page)).to_be_hidden()
    await expect(page).to_have_title("bakery · Agency")
    assert [line.split()[0] for line in ledger.read_text().splitlines()] == ["charge:bread"]


async def test_a_denied_call_never_runs_and_the_reason_is_told(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    thread = create(http, agency, calls(charging(ledger, "bread")), say("as you wish"), agent="careful")
    page = await visitor.open(gateway, link(agency, thread))
    await banner(page).get_by_role("button", name="Deny …").click()
    await page.keyboard.type("too much")
    await banner(page).get_by_role("button", name="Deny", exact=True).click()
    await expect(answer(page)).to_have_text("as you wish")
    await expect(page.locator(".call .status")).to_have_text("denied")
    await page.locator(".call summary").click()
    await expect(page.locator(".call")).to_contain_text("too much")
    assert ledger.read_text() == ""


async def test_an_edited_call_runs_with_the_new_arguments(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    thread = create(http, agency, calls(charging(ledger, "bread")), say("paid"), agent="careful")
    page = await visitor.open(gateway, link(agency, thread))
    await banner(page).get_by_role("button", name="Edit …").click()
    box = banner(page).get_by_label("Arguments as JSON")
    proposed = await box.input_value()
    for wrong, advice in (("{", "That is not JSON yet"), ("[1]", "The arguments are an object")):
        await box.fill(wrong)
        await banner(page).get_by_role("button", name="Approve with these arguments").click()
        await expect(banner(page).get_by_role("alert")).to_contain_text(advice)
    await box.fill(proposed.replace("bread", "cake"))
    await banner(page).get_by_role("button", name="Approve with these arguments").click()
    await expect(answer(page)).to_have_text("paid")
    assert [line.split()[0] for line in ledger.read_text().splitlines()] == ["charge:cake"]


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
    await expect(page.locator(".call .status")).to_have_text(["denied", "done"])
    assert [line.split()[0] for line in ledger.read_text().splitlines()] == ["charge:cake"]
    assert "no bread" in str(http.get(f"/agency/{agency}/agent/{thread}/state").json())


async def test_what_a_child_waits_for_is_answered_at_its_parent(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    below = task(calls(charging(ledger, "bread")), say("paid"), to="careful")
    thread = create(http, agency, calls(below), say("all done"))
    page = await visitor.open(gateway, link(agency, thread))
    await expect(banner(page)).to_contain_text("asked by careful")
    await expect(status(page)).to_have_text("waits for subagents")
    await expect(page.locator(".child .status")).to_have_text("waits for you")
    await banner(page).get_by_role("button", name="Approve").click()
    await expect(answer(page)).to_have_text("all done")
    await expect(banner(page)).to_be_hidden()
    assert "charge:bread" in ledger.read_text()


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
    await expect(page.locator(".figures")).to_contain_text("15 tokens · $0.015 · ")
    await banner(page).get_by_label("New budget of the agency in US dollars").fill("0.5")
    await banner(page).get_by_role("button", name="Go on").click()
    await expect(answer(page)).to_have_text("done")
    await expect(page.locator(".figures")).to_contain_text("priced:any")
    budget = http.get(f"/agency/{agency}/usage").json()["budget"]
    assert (budget["costUsd"], budget["turns"]) == (0.5, 90)
