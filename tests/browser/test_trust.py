"""What the page must withstand: hostile data, gateways that die, and gateways that want a secret."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from playwright.async_api import expect

from tests.support.browser import AWAY, Visitor
from tests.support.gateway_requests import create, finished, stored
from tests.support.gateways import Serve, Server
from tests.support.page_parts import (
    answer,
    at_agency,
    calls_of,
    details,
    link,
    live,
    shown_events,
    status,
    switcher,
    threads,
)
from tests.support.scripted_system import calls, noting, say
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET = "open sesame, büro 7"
HOSTILE = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"


async def test_what_threads_say_is_shown_as_text_whatever_it_is(
    gateway: Server, http: httpx.Client, visitor: Visitor, tmp_path: Path
) -> None:
    agency = http.post("/agencies", json={"name": HOSTILE}).json()["id"]
    thread = create(
        http,
        agency,
        calls(noting(tmp_path / "ledger", HOSTILE)),
        calls(("write_todos", {"todos": [{"content": HOSTILE, "status": "pending"}]})),
        calls(("write_file", {"path": f"/{HOSTILE.replace('/', '')}.md", "content": f"# {HOSTILE}\n\n**{HOSTILE}**"})),
        calls((HOSTILE, {HOSTILE: HOSTILE})),
        say(
            f"{HOSTILE}\n\n```\n{HOSTILE}\n```\n\n[a](javascript:window.hacked=1) ![a picture](http://127.0.0.1:9/x.png)"
        ),
    )
    finished(http, agency, thread)
    page = await visitor.open(gateway, link(agency, thread))
    await expect(answer(page).locator("pre code")).to_have_text(HOSTILE)
    await expect(switcher(page)).to_have_text(HOSTILE)
    await expect(details(page).locator("ol")).to_contain_text(HOSTILE)
    await page.locator("details").evaluate_all("all => all.forEach((each) => (each.open = true))")
    await expect(calls_of(page).first).to_contain_text(f"noted {HOSTILE}")
    for tab in ("Graph", "Timeline", "Files", "Events", "State"):
        await page.get_by_role("link", name=tab, exact=True).click()
        await expect(page.get_by_role("main").get_by_text("Loading …")).to_have_count(0)
        assert await page.evaluate("window.hacked") is None
        assert await page.locator("script:not([src^='./assets/'])").count() == 0
    await page.get_by_role("link", name="Chat", exact=True).click()
    await expect(answer(page)).to_contain_text("a picture")
    assert await page.locator("main img").count() == 0
    assert await answer(page).locator("a[href]").count() == 0


async def test_the_page_may_not_turn_text_into_html(gateway: Server, agency: str, visitor: Visitor) -> None:
    visitor.forgive("TrustedHTML")
    page = await visitor.open(gateway, at_agency(agency))
    tried = await page.evaluate(
        "() => { try { document.body.innerHTML = '<b>x</b>'; return 'done' } catch (e) { return e.name } }"
    )
    assert tried == "TypeError"


async def test_a_gateway_that_is_killed_and_comes_back_costs_no_event_and_no_text(
    gateway: Server, serve: Serve, http: httpx.Client, agency: str, visitor: Visitor, tmp_path: Path
) -> None:
    visitor.forgive(AWAY)
    own = serve()
    whole = "".join(f"word{n} " for n in range(80))
    note = calls(noting(tmp_path / "ledger", "x"))
    thread = create(http, agency, note, say(whole, words=80, delay=8))
    page = await visitor.open(own, link(agency, thread))
    said, told = live(page).locator(".text"), page.get_by_role("status").filter(has_text="Trying again")
    await expect(said).to_contain_text("word5")
    own.kill()
    await expect(told).to_be_visible()
    own.restart()

    async def completed() -> bool:
        now = "".join(await said.all_text_contents())
        assert whole.startswith(now), now
        return await status(page).text_content() == "completed"

    await eventually(completed)
    await expect(answer(page)).to_have_text(whole.rstrip())
    await expect(said).to_have_count(0)
    await expect(told).to_be_hidden()
    await expect(threads(page).locator(".status")).to_have_text("completed")
    assert await shown_events(page) == [(each["seq"], each["type"]) for each in stored(http, agency, thread)]


async def test_a_gateway_with_a_secret_asks_for_it_and_the_tab_keeps_it(
    gateway: Server, serve: Serve, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    visitor.forgive("status of 401")
    guarded = serve(AGENCY_SECRET=SECRET)
    thread = create(http, agency)
    page = await visitor.open(guarded, link(agency, thread))
    dialog = page.get_by_role("dialog", name="Sign in")
    await dialog.get_by_label("Secret").fill("wrong")
    await dialog.get_by_role("button", name="Sign in").click()
    await expect(dialog.get_by_role("alert")).to_have_text("That is not the secret.")
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_visible()
    await dialog.get_by_label("Secret").fill(SECRET)
    await page.keyboard.press("Enter")
    await expect(dialog).to_have_count(0)

    await page.reload()
    await expect(threads(page)).to_have_count(1)
    http.post(f"/agency/{agency}/agent/{thread}/invoke", json={"messages": [{"role": "user", "content": "[]"}]})
    await expect(status(page)).not_to_have_text("new")  # so the socket was let in, too
    kept = await page.evaluate("[Object.values(sessionStorage), Object.keys(localStorage), document.cookie]")
    assert kept == [[SECRET], [], ""]
    await page.get_by_role("button", name="Sign out").click()
    await expect(dialog).to_be_visible()
