"""The events and the state of a thread as they are stored, and threads that begin at one of its events."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from playwright.async_api import expect

from tests.support.browser import Visitor
from tests.support.gateway_requests import create, finished, message, stored
from tests.support.gateways import Server
from tests.support.scripted_system import calls, noting, say
from tests.support.thread_views import event_rows, view

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_every_event_is_listed_and_found_by_its_words(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, tmp_path: Path
) -> None:
    thread = create(http, agency, calls(noting(tmp_path / "ledger", "bread")), say("all done"))
    finished(http, agency, thread)
    events = stored(http, agency, thread)
    page = await visitor.open(gateway, view(agency, thread, "events"))
    await expect(event_rows(page)).to_have_count(len(events))
    shown = await event_rows(page).evaluate_all("all => all.map((row) => [+row.dataset.seq, row.dataset.type])")
    assert [tuple(each) for each in shown] == [(each["seq"], each["type"]) for each in events]

    await page.get_by_role("searchbox", name="Filter the events").fill("TOOL. noted")
    await expect(event_rows(page)).to_have_count(1)
    await event_rows(page).get_by_role("button", name="tool.output").click()
    details = page.get_by_role("complementary", name="Details of the event")
    (output,) = [each for each in events if each["type"] == "tool.output"]
    assert json.loads(await details.locator("pre").inner_text()) == output

    await page.get_by_role("searchbox", name="Filter the events").fill("")
    for area in ("Runs", "Models", "Middleware", "Other"):
        await page.get_by_role("checkbox", name=area).uncheck()
    await expect(event_rows(page)).to_have_count(2)
    await expect(page.get_by_role("toolbar").get_by_role("status")).to_have_text(f"2 of {len(events)} events")


async def test_the_list_follows_what_comes_unless_somebody_reads(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, tmp_path: Path
) -> None:
    work = [calls(*[noting(tmp_path / "ledger", str(n)) for n in range(40)]), say("done")]
    thread = create(http, agency, *work)
    finished(http, agency, thread)
    page = await visitor.open(gateway, view(agency, thread, "events"))
    last = stored(http, agency, thread)[-1]["seq"]
    await expect(event_rows(page).and_(page.locator(f"[data-seq='{last}']"))).to_be_in_viewport()
    http.post(f"/agency/{agency}/agent/{thread}/invoke", json={"messages": message(say("more"))})
    finished(http, agency, thread)
    newest = stored(http, agency, thread)[-1]["seq"]
    assert newest > last
    await expect(event_rows(page).and_(page.locator(f"[data-seq='{newest}']"))).to_be_in_viewport()

    table = page.get_by_role("group", name="Events")
    await table.evaluate("(box) => box.scrollTo(0, 0)")
    follow = page.get_by_role("checkbox", name="Follow")
    await expect(follow).not_to_be_checked()
    http.post(f"/agency/{agency}/agent/{thread}/invoke", json={"messages": message(say("and more"))})
    finished(http, agency, thread)
    count = len(stored(http, agency, thread))
    await expect(page.get_by_role("toolbar").get_by_role("status")).to_have_text(f"{count} events")
    await expect(event_rows(page).and_(page.locator("[data-seq='1']"))).to_be_in_viewport()
    await follow.check()
    await expect(event_rows(page).and_(page.locator(f"[data-seq='{count}']"))).to_be_in_viewport()


async def test_the_state_is_shown_as_it_is(gateway: Server, http: httpx.Client, agency: str, visitor: Visitor) -> None:
    thread = create(http, agency, say("hello"))
    finished(http, agency, thread)
    page = await visitor.open(gateway, view(agency, thread, "state"))
    tree = page.get_by_role("region", name="State")
    await tree.locator("summary", has_text="1:").first.click()  # the messages come first
    await expect(tree).to_contain_text('content: "hello"')
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="JSON", exact=True).click()
    saved = json.loads(Path(await (await saving.value).path()).read_text())
    assert saved == http.get(f"/agency/{agency}/agent/{thread}/state").json()["state"]


async def test_a_thread_is_forked_after_any_event(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, tmp_path: Path
) -> None:
    work = [calls(noting(tmp_path / "ledger", "bread")), say("all done")]
    thread = create(http, agency, *work)
    finished(http, agency, thread)
    (seq,) = [each["seq"] for each in stored(http, agency, thread) if each["type"] == "agent.completed"]
    page = await visitor.open(gateway, f"{view(agency, thread, 'events')}?event={seq}")
    await page.get_by_role("button", name=f"Fork after event {seq}").click()
    dialog = page.get_by_role("dialog", name="Fork this thread")
    await dialog.get_by_label("Message").fill(message(say("another way"))[0]["content"])
    await dialog.get_by_role("button", name="Fork", exact=True).click()
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_role("log")).to_contain_text("another way")
    fork = page.url.rpartition("/")[2]
    assert fork != thread
    found = http.get(f"/agency/{agency}/agent/{fork}").json()
    assert found["forkedFrom"] == {"threadId": thread, "seq": seq}

    await page.goto(f"{gateway.url}/{view(agency, thread, 'events')}")
    lineage = page.get_by_role("note", name="Lineage")
    await lineage.get_by_role("link", name=f"after event {seq}").click()
    await expect(page).to_have_url(f"{gateway.url}/a/{agency}/t/{fork}")
