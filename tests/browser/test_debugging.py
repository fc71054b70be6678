"""A person looks for a defect: from a call that failed to its traceback, its output, and what the model was sent."""

from __future__ import annotations

import json

import httpx
import pytest
from playwright.async_api import expect

from tests.support.browser import Visitor
from tests.support.gateway_requests import create, finished, stored
from tests.support.gateways import Server
from tests.support.scripted_system import calls, say
from tests.support.thread_views import event_rows, view

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_defect_is_found_from_every_view(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(http, agency, calls(("stumble", {"what": "left"})), say("It failed."))
    finished(http, agency, thread)
    await visitor.page.context.grant_permissions(["clipboard-read", "clipboard-write"])

    # In the chat: the call with its traceback and output, the reply with what the model was sent.
    page = await visitor.open(gateway, f"a/{agency}/t/{thread}")
    await page.locator("[data-call] summary").first.click()
    await expect(page.get_by_role("region", name="Output")).to_contain_text("printed by left")
    await expect(page.get_by_role("region", name="Traceback")).to_contain_text("LookupError: no left")
    await page.get_by_role("button", name="Model call", exact=True).last.click()
    dialog = page.get_by_role("dialog", name="Model call")
    await expect(dialog.get_by_role("region", name="Prompt, by planning")).to_be_visible()
    await expect(dialog.get_by_role("region", name="Reply")).to_contain_text("It failed.")
    await expect(dialog.get_by_role("region", name="Tool", exact=True)).to_contain_text("no left")
    await dialog.get_by_role("button", name="Copy as JSON").click()
    copied = json.loads(await page.evaluate("navigator.clipboard.readText()"))
    assert copied["reply"]["content"] == "It failed." and copied["status"] == "success"
    await page.set_viewport_size({"width": 390, "height": 800})
    assert await dialog.evaluate("(node) => node.scrollWidth <= node.clientWidth")
    await page.set_viewport_size({"width": 1280, "height": 800})
    await page.keyboard.press("Escape")

    # From an event, from a row of the timeline and from a node of the graph.
    page = await visitor.open(gateway, view(agency, thread, "events"))
    events = stored(http, agency, thread)
    (failed,) = [each["seq"] for each in events if each["type"] == "tool.error"]
    await event_rows(page).and_(page.locator(f"[data-seq='{failed}']")).get_by_role("button").click()
    await expect(page.get_by_role("region", name="Traceback")).to_contain_text("in _stumble")
    asked = next(each["seq"] for each in events if each["type"] == "model.started")
    await event_rows(page).and_(page.locator(f"[data-seq='{asked}']")).get_by_role("button").click()
    await page.get_by_role("button", name="Model call", exact=True).click()
    await expect(dialog.get_by_role("region", name="Reply")).to_contain_text("stumble")
    await page.keyboard.press("Escape")
    page = await visitor.open(gateway, view(agency, thread, "timeline"))
    await page.locator(f"[data-node='model:{asked}']").click()
    await page.get_by_role("button", name="Model call", exact=True).click()
    await expect(dialog.get_by_role("region", name="Reply")).to_contain_text("stumble")
    await page.keyboard.press("Escape")
    (tool,) = [each["seq"] for each in events if each["type"] == "tool.started"]
    page = await visitor.open(gateway, f"{view(agency, thread, 'graph')}?node=tool:{tool}")
    await expect(page.get_by_role("region", name="Output")).to_contain_text("logged by left")
