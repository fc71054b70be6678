"""The graph and the timeline of a thread: that they show what is stored, and stay usable when that is much."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.support.browser import Visitor
from tests.support.gateway_requests import create, finished, stored
from tests.support.gateways import Server
from tests.support.scripted_system import calls, holding, let_go, noting, say, script, task
from tests.support.thread_views import canvas, drawn, node_rows, nodes_of, shown_nodes, view
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_nodes_of_the_graph_are_those_of_the_stored_events_while_they_come_and_after(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    thread = create(http, agency, agent="careful")
    page = await visitor.open(gateway, view(agency, thread, "graph"))
    await expect(page.get_by_role("main")).to_contain_text("Nothing has run yet.")
    lines = script(
        calls(noting(ledger, "one"), noting(ledger, "two"), ("nothing_like_it", {})),
        calls(task(say("found it"))),
        calls(("charge", {"ledger": str(ledger), "what": "cake"})),
        say("all done"),
    )
    http.post(f"/agency/{agency}/agent/{thread}/invoke", json={"messages": [{"role": "user", "content": lines}]})
    asked = node_rows(page).and_(page.locator("[data-kind=approval]"))
    await expect(asked).to_have_attribute("data-status", "waiting")
    assert await shown_nodes(page) == nodes_of(stored(http, agency, thread))

    http.post(f"/agency/{agency}/agent/{thread}/approve", json={"approved": True})
    await expect(node_rows(page).first).to_have_attribute("data-status", "done")
    events = stored(http, agency, thread)
    assert await shown_nodes(page) == nodes_of(events)
    assert await drawn(page) == len(nodes_of(events))
    kinds = [kind for _, kind in nodes_of(events)]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "run": 1,
        "tick": 4,
        "model": 4,
        "tool": 5,
        "approval": 1,
        "child": 1,
    }
    refused = node_rows(page).filter(has_text="nothing_like_it")
    await expect(refused).to_have_attribute("data-status", "failed")


async def test_a_click_on_a_node_shows_its_events_and_a_child_leads_to_its_thread(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor
) -> None:
    thread = create(http, agency, calls(task(say("found it"))), say("all done"))
    finished(http, agency, thread)
    child = http.get(f"/agency/{agency}/agents", params={"parent": thread}).json()["agents"][0]["id"]
    page = await visitor.open(gateway, view(agency, thread, "graph"))
    await expect(node_rows(page)).to_have_count(len(nodes_of(stored(http, agency, thread))))
    await click_node(page, "child")
    details = page.get_by_role("complementary", name="Details of the node")
    await expect(details.get_by_role("listitem")).to_contain_text(["subagent.spawned", "subagent.completed"])
    await expect(details.locator("pre").first).to_contain_text(f'"childThreadId": "{child}"')
    await expect(page).to_have_url(
        f"{gateway.url}/{view(agency, thread, 'graph')}?node=child%3A{await child_seq(page)}"
    )
    await page.reload()  # a link leads to the node, too
    await expect(details).to_contain_text("worker")
    await details.get_by_role("link", name="worker’s thread").click()
    await expect(page).to_have_url(f"{gateway.url}/a/{agency}/t/{child}")


async def child_seq(page: Page) -> str:
    row = node_rows(page).and_(page.locator("[data-kind=child]"))
    return (await row.get_attribute("data-node") or "").partition(":")[2]


async def click_node(page: Page, kind: str) -> None:
    """Click on the first node of a kind, where the canvas has it."""
    place = await canvas(page).evaluate(
        """(box, kind) => {
            const {x, y} = box._cyreg.cy.nodes(`[kind = "${kind}"]`).first().renderedPosition();
            const {left, top} = box.getBoundingClientRect();
            return [left + x, top + y];
        }""",
        kind,
    )
    await page.mouse.click(*place)


async def test_the_graph_can_be_searched_zoomed_read_as_a_table_and_saved_as_a_picture(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    thread = create(http, agency, calls(noting(ledger, "bread"), noting(ledger, "cake")), say("all done"))
    finished(http, agency, thread)
    page = await visitor.open(gateway, view(agency, thread, "graph"))
    search = page.get_by_role("searchbox", name="Search the graph")
    await search.fill("tool cake")
    await expect(page.get_by_role("search").get_by_role("status")).to_have_text("1 hit")
    await search.press("Enter")
    details = page.get_by_role("complementary", name="Details of the node")
    await expect(details).to_contain_text("cake")
    await details.get_by_role("button", name="Close").click()
    await expect(details).to_have_count(0)

    before = await zoom(page)
    await page.get_by_role("button", name="Zoom in").click()
    assert await zoom(page) > before
    await page.get_by_role("button", name="Fit").click()
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="PNG").click()
    saved = await saving.value
    assert saved.suggested_filename == f"{thread}-graph.png"
    assert Path(await saved.path()).read_bytes().startswith(b"\x89PNG")

    await page.get_by_role("button", name="Table").click()
    await expect(canvas(page)).to_be_hidden()
    await page.get_by_role("table").get_by_role("button", name="note").first.click()
    await expect(details).to_contain_text("noted bread")


async def zoom(page: Page) -> float:
    return float(await canvas(page).evaluate("(box) => box._cyreg.cy.zoom()"))


# The timeline.


async def test_the_timeline_has_a_row_for_each_node_as_long_as_it_took(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    work = calls(noting(ledger, "short", 0.1), noting(ledger, "long", 1.0))
    thread = create(http, agency, work, calls(task(say("found it"))), say("all done"))
    finished(http, agency, thread)
    page = await visitor.open(gateway, view(agency, thread, "timeline"))
    rows = page.get_by_role("region", name="Timeline").locator("[data-node]")
    expected = nodes_of(stored(http, agency, thread))
    await expect(rows).to_have_count(len(expected))
    shown = await rows.evaluate_all("all => all.map((row) => [row.dataset.node, row.dataset.kind])")
    assert sorted((name, kind) for name, kind in shown) == sorted(expected)
    order = [kind for _, kind in shown]
    assert order.index("child") == order.index("tool", order.index("tick", order.index("tick") + 1)) + 1

    bars = [
        await bar.bounding_box() for bar in await rows.filter(has_text="note").locator("span:last-child > span").all()
    ]
    widths = [box["width"] for box in bars if box is not None]
    assert len(widths) == 2 and widths[1] > 3 * widths[0]
    await rows.filter(has_text="note").last.click()
    details = page.get_by_role("complementary", name="Details of the node")
    await expect(details.get_by_role("listitem")).to_contain_text(["tool.started", "tool.output"])

    await page.get_by_role("checkbox", name="Tool call").uncheck()
    await expect(rows.and_(page.locator("[data-kind=tool]"))).to_have_count(0)


async def test_a_running_call_grows_in_the_timeline(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    thread = create(http, agency, calls(holding(ledger, "slow")), say("done"))
    page = await visitor.open(gateway, view(agency, thread, "timeline"))
    row = page.get_by_role("region", name="Timeline").locator("[data-kind=tool]")
    await expect(row).to_have_accessible_name(re.compile(r"hold [1-9]\.\d s Tool call, running$"))
    await expect(row).to_have_accessible_name(re.compile(r"hold [2-9]\.\d s Tool call, running$"))
    let_go(ledger, "slow")
    await expect(row).to_have_accessible_name(re.compile(r"hold [2-9]\.\d s Tool call, done$"))


# Much.


async def test_five_thousand_events_stay_usable(
    gateway: Server, http: httpx.Client, agency: str, visitor: Visitor, ledger: Path
) -> None:
    steps = [calls(*[noting(ledger, f"{step}.{n}") for n in range(6)]) for step in range(270)]
    thread = create(http, agency, *steps, say("all done"), limits={"turns": 500})
    assert finished(http, agency, thread, wait=280)["status"] == "completed"
    events = stored(http, agency, thread)
    assert len(events) >= 5_000
    expected = nodes_of(events)

    page = await visitor.open(gateway, view(agency, thread, "graph"))
    await expect(node_rows(page)).to_have_count(len(expected))
    assert await shown_nodes(page) == expected
    assert 10 < await drawn(page) < 200
    search = page.get_by_role("searchbox", name="Search the graph")
    await search.fill("tool 123.4")
    await search.press("Enter")
    await expect(page.get_by_role("complementary", name="Details of the node")).to_contain_text("noted 123.4")
    await page.get_by_role("button", name="Unfold all").click()

    async def unfolded() -> bool:
        return await drawn(page) == len(expected)

    await eventually(unfolded)
    await page.get_by_role("button", name="Zoom out").click()

    await page.get_by_role("link", name="Timeline").or_(page.get_by_role("tab", name="Timeline")).click()
    timeline = page.get_by_role("region", name="Timeline")
    await expect(timeline.locator("[data-node]").first).to_be_visible()
    assert await timeline.locator("[data-node]").count() < 120  # those in sight, and some around them
    await timeline.evaluate("(box) => box.scrollTo(0, box.scrollHeight)")
    await expect(timeline.locator(f"[data-node='{expected[-1][0]}']")).to_be_visible()
