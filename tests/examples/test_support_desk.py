"""`examples.support_desk`: a refund runs as a person decides, and not at all if it is denied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agency import Approve, Decision, Deny, Edit, LocalRuntime
from examples.support_desk import RULE, TICKETS, bank, system
from tests.support.example_processes import run, terminal


@pytest.fixture(autouse=True)
def empty_bank() -> Iterator[None]:
    bank.clear()
    yield
    bank.clear()


@pytest.mark.parametrize("arguments", [(), ("--yes",)], ids=["nobody is there", "yes"])
def test_where_nobody_is_asked_it_goes_by_the_rule_that_it_states(arguments: tuple[str, ...], tmp_path: Path) -> None:
    printed = run("support_desk", *arguments, folder=tmp_path)

    assert f"No person is asked. {RULE}" in printed
    assert all(f"Customer  {ticket}" in printed for ticket in TICKETS)
    assert [line.split("(")[0] for line in printed.splitlines() if "→" in line] == [
        "  → Approve",
        "  → Edit",
        "  → Deny",
    ]
    assert "Agent     I am sorry. 12.50 are on their way to you." in printed
    assert "Agent     I am sorry, there is no refund: that is more than we can give." in printed
    assert printed.endswith("Paid: 12.50 for order 7, 20.00 for order 8\n")
    assert list(tmp_path.iterdir()) == []


def test_whoever_sits_at_the_terminal_approves_edits_and_denies(tmp_path: Path) -> None:
    with terminal(typed="deny\nit was only one cup\nedit\n500\napprove\n") as typed:
        printed = run("support_desk", folder=tmp_path, stdin=typed)

    assert "Every refund is yours to decide." in printed
    assert "there is no refund: it was only one cup." in printed
    assert printed.endswith("Paid: 5.00 for order 8, 480.00 for order 9\n")


@pytest.mark.parametrize(
    ("decision", "paid", "told"),
    [
        (Approve(), [("7", 1_250)], "12.50 are on their way"),
        (Edit({"order_id": "7", "cents": 100}), [("7", 100)], "1.00 are on their way"),
        (Deny("no"), [], "there is no refund: no."),
    ],
    ids=["approved", "edited", "denied"],
)
async def test_nothing_is_paid_before_the_decision_and_afterwards_just_what_was_decided(
    decision: Decision, paid: list[tuple[str, int]], told: str, tmp_path: Path
) -> None:
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("support")
        await thread.invoke(TICKETS[0])
        (wanted,) = (await thread.wait(60)).meta.pending_tool_calls
        assert (wanted.name, wanted.risk, bank) == ("refund", "high", {})
        await thread.decide({wanted.id: decision})
        ended = await thread.wait(60)

    assert ended.status == "completed"
    assert told in str(ended.data)
    assert list(bank.values()) == paid


@pytest.mark.parametrize(
    ("ticket", "told"),
    [("Hello?", "Which order is it about?"), ("My order 10 is late.", "we know of no order 10")],
)
async def test_without_an_order_that_it_knows_nobody_is_bothered(ticket: str, told: str, tmp_path: Path) -> None:
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("support")
        await thread.invoke(ticket)
        ended = await thread.wait(60)

    assert ended.status == "completed"
    assert told in str(ended.data)
