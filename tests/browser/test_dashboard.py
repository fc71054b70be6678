"""The dashboard as people use it: looking around and talking."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, Route, expect

from tests.support.browser import Visitor
from tests.support.gateway_requests import create, finished, stored
from tests.support.gateways import Server
from tests.support.page_parts import (
    answer,
    at_agency,
    call_states,
    calls_of,
    details,
    link,
    live,
    shown_events,
    status,
    switcher,
    threads,
)
from tests.support.scripted_system import calls, holding, let_go, say, script, task

pytestmark = pytest.mark.asyncio(loop_scope="session")


# Looking.


async def test_the_page_shows_agencies_and_their_threads_as_a_tree(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    first = create(http, agency, calls(task(say("found it"))), say("all done"))
    finished(http, agency, first)
    second = create(http, agency, say("hello"), agent="careful")
    finished(http, agency, second)

    page = await visitor.open(gateway)
    await switcher(page).click()
    await page.get_by_role("menuitemradio").filter(has_text=agency).click()
    await expect(page).to_have_url(f"{gateway.url}/{at_agency(agency)}")
    await expect(threads(page)).to_contain_text(["careful", "clerk", "worker"])
    assert [await row.get_attribute("aria-level") for row in await threads(page).all()] == ["1", "1", "2"]
    await expect(threads(page).locator(".status")).to_have_text(["completed"] * 3)
    await threads(page).first.click()
    await expect(page).to_have_url(f"{gateway.url}/{link(agency, second)}")
    await expect(answer(page)).to_have_text("hello")


async def test_the_tree_is_walked_by_keys_searched_and_filtered(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    first = create(http, agency, calls(task(say("found it"))), say("all done"))
    finished(http, agency, first)
    page = await visitor.open(gateway, at_agency(agency))
    await expect(threads(page)).to_have_count(2)
    await threads(page).first.focus()
    await page.keyboard.press("ArrowLeft")
    await expect(threads(page)).to_have_count(1)
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("ArrowDown")
    await expect(threads(page).last).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(answer(page)).to_have_text("found it")

    await page.get_by_role("main").click(position={"x": 5, "y": 5})
    await page.keyboard.press("/")
    await page.keyboard.type("work")
    await expect(threads(page)).to_contain_text(["clerk", "worker"])
    await page.keyboard.type(" no such thread")
    await expect(threads(page)).to_have_count(0)
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Running").click()
    await expect(threads(page)).to_have_count(0)
    await page.get_by_role("button", name="Ended").click()
    await expect(threads(page)).to_have_count(2)


async def test_ten_thousand_threads_are_as_smooth_as_ten(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(http, agency, say("hello"))
    finished(http, agency, thread)
    one = http.get(f"/agency/{agency}/agents").json()["agents"][0]
    many = [
        {**one, "id": f"thr_{n:05}", "agentType": f"agent-{n % 7}", "createdAt": f"2026-01-01T{n:010}"}
        for n in reversed(range(10_000))
    ]

    async def pages(route: Route) -> None:
        query = httpx.URL(route.request.url).params
        begin, limit = int(query.get("after", 0)), int(query["limit"])
        rest = begin + limit if begin + limit < len(many) else None
        await route.fulfill(json={"agents": many[begin : begin + limit], "next": rest})

    await visitor.page.route("**/agents?*", pages)
    page = await visitor.open(gateway, at_agency(agency))
    await expect(page.get_by_role("navigation").get_by_role("heading", name="Threads 10k")).to_be_visible()
    assert await threads(page).count() < 60
    await threads(page).first.focus()
    await page.keyboard.press("End")
    await expect(page.locator("[data-thread=thr_00000]")).to_be_focused()
    await page.get_by_role("searchbox", name="Search threads").fill("agent-3 thr_0000")
    await expect(threads(page)).to_contain_text(["agent-3"] * 1)


async def test_an_agency_without_threads_and_a_thread_without_messages_say_what_to_do(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    page = await visitor.open(gateway, at_agency(agency))
    await expect(page.get_by_role("main")).to_contain_text("Start a thread to talk to an agent.")
    thread = create(http, agency)
    await threads(page).click()
    await expect(page).to_have_url(f"{gateway.url}/{link(agency, thread)}")
    await expect(page.get_by_role("main")).to_contain_text("Write the first message below")


async def test_a_deep_link_opens_its_thread_and_the_history_leads_back(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(http, agency, calls(task(say("found it"))), say("all done"))
    finished(http, agency, thread)
    child = http.get(f"/agency/{agency}/agents", params={"parent": thread}).json()["agents"][0]["id"]

    page = await visitor.open(gateway, link(agency, child))
    await expect(page.get_by_role("log").get_by_role("article").first).to_have_accessible_name("clerk")
    await expect(answer(page)).to_have_text("found it")
    await page.locator("main > header").get_by_role("link", name="clerk").click()
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
    await visitor.open(gateway, at_agency("agc_nowhere"))
    await expect(page.get_by_role("main")).to_contain_text("Choose another one on the left")
    await visitor.open(gateway, "a/x/nonsense")
    await expect(page.get_by_role("main")).to_contain_text("There is nothing at this address.")
    assert http.get("/agency/agc_nowhere/nonsense").headers["content-type"] == "application/problem+json"


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


async def test_plan_and_files_are_shown_as_they_change(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(http, agency)
    page = await visitor.open(gateway, link(agency, thread))
    await expect(details(page)).to_contain_text("No plan yet.")
    lines = script(
        calls(("write_todos", {"todos": [{"content": "bake", "status": "in_progress"}]})),
        calls(("write_file", {"path": "/report.md", "content": "# Bread\n"})),
        say("done"),
    )
    http.post(f"/agency/{agency}/agent/{thread}/invoke", json={"messages": [{"role": "user", "content": lines}]})
    await expect(details(page).locator("ol li")).to_have_text("bake (in progress)")
    await expect(details(page).get_by_role("link", name="/report.md")).to_be_visible()
    await expect(status(page)).to_have_text("completed")
    await expect(details(page)).to_contain_text("3 of 100")
    assert await shown_events(page) == [(each["seq"], each["type"]) for each in stored(http, agency, thread)]


async def test_subagents_that_work_side_by_side_are_watched_in_place(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    works = [task(calls(holding(ledger, name)), say(f"{name} is done")) for name in ("bread", "cake")]
    thread = create(http, agency, calls(*works), say("all done"))
    page = await visitor.open(gateway, link(agency, thread))
    await expect(status(page)).to_have_text("waits for subagents")
    await expect(threads(page)).to_contain_text(["clerk", "worker", "worker"])
    first = calls_of(page).first
    await first.get_by_role("button", name="Show worker’s work").click()
    for name in ("bread", "cake"):
        let_go(ledger, name)
    await expect(first.get_by_role("log")).to_contain_text("bread is done")
    await expect(answer(page)).to_have_text("all done")
    await expect(call_states(page).first).to_have_text("done")
    await expect(details(page)).to_contain_text("Subagents 2")


async def test_on_a_phone_there_is_one_thing_at_a_time(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(http, agency, say("hello"))
    finished(http, agency, thread)
    await visitor.page.set_viewport_size({"width": 390, "height": 844})
    page = await visitor.open(gateway, at_agency(agency))
    await expect(page.get_by_role("main")).to_contain_text("Start a thread")
    await expect(threads(page)).to_have_count(0)
    await page.get_by_role("button", name="Agencies and threads").click()
    await threads(page).click()
    await expect(answer(page)).to_have_text("hello")
    await expect(threads(page)).to_have_count(0)
    await page.get_by_role("button", name="Plan, run and files").click()
    await expect(details(page)).to_contain_text("No plan yet.")
    await expect(answer(page)).to_be_hidden()
    for address in (link(agency, thread), at_agency(agency, "blueprints/clerk"), at_agency(agency, "inbox"), "cluster"):
        await visitor.open(gateway, address)
        await expect(page.get_by_role("main")).not_to_be_empty()
        assert await page.evaluate("document.documentElement.scrollWidth") == 390, address
    long = create(http, agency, *[calls(("no_such_tool", {})) for _ in range(6)], say("seen"))
    finished(http, agency, long)
    await visitor.open(gateway, link(agency, long, "events"))
    await expect(page.get_by_role("row").nth(1)).to_be_visible()
    data = await page.get_by_role("columnheader", name="Data").bounding_box()
    assert data is not None and data["width"] > 140, "also if there are more rows than the screen shows"


# Talking.


async def test_a_thread_that_is_made_here_answers_here_word_by_word(
    gateway: Server, agency: str, visitor: Visitor
) -> None:
    page = await visitor.open(gateway, at_agency(agency))
    await page.get_by_role("navigation").get_by_role("button", name="New thread").click()
    dialog = page.get_by_role("dialog", name="New thread")
    options = dialog.get_by_role("option")
    await expect(options.filter(has_text="clerk")).to_have_count(1)
    await expect(options.filter(has_text="retired")).to_have_count(0)
    await dialog.get_by_label("Agent").select_option("clerk")
    await expect(dialog).to_contain_text("Does what it is told.")
    await dialog.get_by_label("First message").fill(script(say("the **whole** answer", words=40, delay=4)))
    await dialog.get_by_role("button", name="Start").click()

    await expect(live(page)).to_contain_text("word3")
    assert "word39" not in await live(page).inner_text()
    await expect(status(page)).to_have_text("running")
    await expect(answer(page)).to_have_text("the whole answer")
    await expect(answer(page).locator("strong")).to_have_text("whole")
    await expect(live(page)).to_have_count(0)
    await expect(status(page)).to_have_text("completed")
    await expect(page.locator("main > header")).to_contain_text("1 turn · 15 tokens")
    await expect(threads(page).locator(".status")).to_have_text("completed")


async def test_a_page_that_is_loaded_in_the_middle_of_a_reply_has_all_of_it(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    whole = "".join(f"word{n} " for n in range(60))
    thread = create(http, agency, say(whole, words=60, delay=6))
    page = await visitor.open(gateway, link(agency, thread))
    await expect(live(page)).to_contain_text("word5")
    await page.reload()
    await expect(live(page)).to_contain_text("word0 word1 word2")
    await expect(answer(page)).to_have_text(whole.rstrip())
    await expect(page.get_by_role("log").locator("[data-role=assistant]")).to_have_count(1)


async def test_enter_sends_and_what_is_said_during_a_run_joins_it(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    thread = create(http, agency)
    page = await visitor.open(gateway, link(agency, thread))
    box = page.get_by_role("textbox", name="Message")
    await box.fill(script(calls(holding(ledger, "slow")), say("never said")))
    await box.press("Enter")
    await expect(call_states(page)).to_have_text("running")
    await box.fill(script(say("I have joined")))
    await box.press("Enter")
    await expect(page.locator("[data-sent]")).to_contain_text("joins at the next step")
    await expect(box).to_have_value("")
    let_go(ledger, "slow")
    await expect(answer(page)).to_have_text("I have joined")
    await expect(page.locator("[data-sent]")).to_have_count(0)
    await expect(page.get_by_role("log").locator("[data-role=user]")).to_have_count(2)
    await expect(call_states(page)).to_have_text("done")
    await calls_of(page).locator("summary").click()
    await expect(calls_of(page)).to_contain_text("noted slow")
    assert finished(http, agency, thread)["runId"].endswith(".1")


async def test_files_are_dropped_into_a_message(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(http, agency)
    page = await visitor.open(gateway, link(agency, thread))
    await _drop(page, "recipe.txt", "flour and water")
    await expect(page.get_by_role("list", name="Attached files")).to_contain_text("recipe.txt")
    box = page.get_by_role("textbox", name="Message")
    await box.fill(script(say("thanks")))
    await box.press("Enter")
    await expect(answer(page)).to_have_text("thanks")
    await expect(page.get_by_role("list", name="Attached files")).to_have_count(0)
    assert http.get(f"/agency/{agency}/agent/{thread}/state").json()["state"]["files"] == {
        "/recipe.txt": "flour and water"
    }


async def _drop(page: Page, name: str, content: str) -> None:
    data = await page.evaluate_handle(
        """([name, content]) => {
          const data = new DataTransfer();
          data.items.add(new File([content], name));
          return data;
        }""",
        [name, content],
    )
    await page.get_by_role("textbox", name="Message").dispatch_event("drop", {"dataTransfer": data})


async def test_a_run_is_stopped_by_its_button(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(http, agency, say("too late", delay=60))
    page = await visitor.open(gateway, link(agency, thread))
    await page.get_by_role("button", name="Stop").click()
    await expect(status(page)).to_have_text("canceled")
    await expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    await expect(page.get_by_role("main")).to_contain_text("The run was canceled. A new message begins another.")
    assert finished(http, agency, thread)["status"] == "canceled"
