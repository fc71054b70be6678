"""What every view must be: free of serious barriers, and pictured in light and dark for whoever wants to look.

AGENCY_PICTURES=folder keeps the pictures there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.support.browser import Visitor
from tests.support.gateway_requests import create, finished, message
from tests.support.gateways import Server
from tests.support.page_parts import at_agency, banner, link
from tests.support.paths import ROOT
from tests.support.scripted_system import calls, say, task

pytestmark = pytest.mark.asyncio(loop_scope="session")

AXE = ROOT / "dashboard" / "web" / "node_modules" / "axe-core" / "axe.min.js"
REPORT = """# Bread

A table and some `code`:

| day | loaves |
| --- | --- |
| Monday | 40 |

```python
def bake(loaves: int) -> str:
    return f"{loaves} loaves"  # fresh
```
"""

VIEWS = {
    "overview": "",
    "inbox": "inbox",
    "blueprints": "blueprints/careful",
    "schedules": "schedules",
    "shelves": "shelves/recipes?entry=rye.md",
    "settings": "settings",
    "chat": "t/{thread}",
    "graph": "t/{thread}/graph",
    "timeline": "t/{thread}/timeline",
    "files": "t/{thread}/files",
    "events": "t/{thread}/events",
    "state": "t/{thread}/state",
    "cluster": "/cluster",
    "compare": "compare?a={thread}&b={thread}",
    "api": "/docs",
}


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("AGENCY_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def busy(gateway: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """An agency, and a thread there with something of everything: a plan, a file, subagents, and a call that waits."""
    todos = [{"content": "ask", "status": "completed"}, {"content": "pay", "status": "in_progress"}]
    lines = (
        calls(("write_todos", {"todos": todos}), ("write_file", {"path": "/report.md", "content": REPORT})),
        calls(task(say("bread is good")), task(say("cake is better"))),
        say(REPORT),
    )
    ledger = tmp_path_factory.mktemp("look") / "ledger"
    with gateway.client() as http:
        agency = str(http.post("/agencies", json={"name": "bakery"}).json()["id"])
        http.put(f"/agency/{agency}/shelf/recipes/rye.md", content=REPORT)
        thread = create(http, agency, *lines, agent="careful")
        finished(http, agency, thread)
        wanted = calls(("charge", {"ledger": str(ledger), "what": "bread"}))
        http.post(f"/agency/{agency}/agent/{thread}/invoke", json={"messages": message(wanted)})
        finished(http, agency, thread)
    return agency, thread


async def barriers(page: Page) -> list[str]:
    """What is seriously in the way of people who cannot see well or use no mouse."""
    await page.evaluate(AXE.read_text())
    found: dict[str, Any] = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']} ({each['impact']}): {each['help']}: {node['html'][:200]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("view", VIEWS)
async def test_no_view_has_serious_barriers_in_light_or_dark(
    gateway: Server, busy: tuple[str, str], visitor: Visitor, pictures: Path, view: str
) -> None:
    visitor.forgive("status of 404")  # of gateways without schedules, policies or files
    agency, thread = busy
    address = VIEWS[view].format(thread=thread)
    page = visitor.page
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await visitor.open(gateway, address[1:] if address.startswith("/") else at_agency(agency, address))
    await expect(page.locator("main > header h1")).to_be_visible()
    if f"t/{thread}" in address:
        await expect(banner(page)).to_contain_text("charge")
    await expect(page.get_by_role("main").get_by_text("Loading")).to_have_count(0)
    await page.screenshot(path=pictures / f"{view}-light.png", animations="disabled")
    assert "\n".join(await barriers(page)) == ""
    await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await page.screenshot(path=pictures / f"{view}-dark.png", animations="disabled")
    assert "\n".join(await barriers(page)) == ""


async def test_dialogs_have_no_serious_barriers_and_give_the_focus_back(
    gateway: Server, agency: str, visitor: Visitor
) -> None:
    page = await visitor.open(gateway, at_agency(agency))
    opener = page.get_by_role("navigation").get_by_role("button", name="New thread")
    await opener.click()
    await expect(page.get_by_label("First message").last).to_be_focused()
    assert "\n".join(await barriers(page)) == ""
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(opener).to_be_focused()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()


async def test_the_theme_follows_the_system_until_somebody_chooses(
    gateway: Server, agency: str, visitor: Visitor
) -> None:
    page = visitor.page
    await page.emulate_media(color_scheme="dark")
    await visitor.open(gateway, at_agency(agency))
    root = page.locator("html")
    await expect(root).to_have_attribute("data-theme", "dark")
    await page.get_by_role("button", name="Light theme").click()
    await expect(root).to_have_attribute("data-theme", "light")
    await page.reload()
    await expect(root).to_have_attribute("data-theme", "light")
    await page.get_by_role("button", name="Dark theme").click()
    await page.emulate_media(color_scheme="light")
    await expect(root).to_have_attribute("data-theme", "light")


async def test_a_thread_without_chat_tab_keeps_what_waits_in_sight(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, tmp_path: Path
) -> None:
    wanted = calls(("charge", {"ledger": str(tmp_path / "ledger"), "what": "bread"}))
    thread = create(http, agency, wanted, say("paid"), agent="careful")
    page = await visitor.open(gateway, link(agency, thread, "events"))
    await banner(page).get_by_role("button", name="Approve", exact=True).click()
    await expect(banner(page)).to_be_hidden()
    assert finished(http, agency, thread)["status"] == "completed"
