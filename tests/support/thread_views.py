"""What the views of a thread should show, told from its stored events."""

from __future__ import annotations

from typing import Any, Literal

from playwright.async_api import Locator, Page

Json = Any
Tab = Literal["graph", "timeline", "files", "events", "state"]

BEGINS = {
    "run.started": "run",
    "run.tick": "tick",
    "model.started": "model",
    "hitl.interrupt": "approval",
    "subagent.spawned": "child",
}


def view(agency: str, thread: str, tab: Tab) -> str:
    return f"a/{agency}/t/{thread}/{tab}"


def nodes_of(events: list[Json]) -> list[tuple[str, str]]:
    """The nodes that a graph of these events has, each named after the event that it began with, and its kind.

    Of a call there is one for each attempt: its id counts until the next step.
    """
    found: list[tuple[str, str]] = []
    calls: set[str] = set()
    for event in events:
        seq, kind, data = event["seq"], event["type"], event["data"]
        if kind in BEGINS:
            found.append((f"{BEGINS[kind]}:{seq}", BEGINS[kind]))
        if kind == "run.tick":
            calls.clear()
        again = kind.endswith(".retried") and data["why"] in ("died", "stopped")
        if again and kind == "model.retried":
            found.append((f"model:{seq}", "model"))
        if kind.startswith("tool.") and (data["callId"] not in calls or again or kind == "tool.started"):
            calls.add(data["callId"])
            found.append((f"tool:{seq}", "tool"))
    return found


def node_rows(page: Page) -> Locator:
    """The graph in words."""
    return page.get_by_role("table", name="Nodes of the graph").locator("[data-node]")


async def shown_nodes(page: Page) -> list[tuple[str, str]]:
    rows = await node_rows(page).evaluate_all("all => all.map((row) => [row.dataset.node, row.dataset.kind])")
    return [(name, kind) for name, kind in rows]


def canvas(page: Page) -> Locator:
    return page.get_by_role("img", name="Graph of")


async def drawn(page: Page) -> int:
    """How many nodes are on the canvas; what is folded counts once."""
    return int(await canvas(page).get_attribute("data-drawn") or 0)


def event_rows(page: Page) -> Locator:
    return page.get_by_role("table", name="Events of the thread").locator("[data-seq]")
