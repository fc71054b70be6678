"""`examples.custom_middleware`: what an agent cannot pay does not run, and the expenses last as long as the thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agency import AgentSystem, DefinitionError, Thread, open_thread
from agency.testing import ScriptedModel
from examples.custom_middleware import Budget, poster, system
from tests.support.example_processes import run


async def order(thread: Thread, *products: str) -> list[str]:
    """Order posters; the results."""
    before = len((await thread.state()).messages)
    await thread.invoke("\n".join(f'call poster {{"product": "{product}"}}' for product in products))
    assert (await thread.wait(60)).status == "completed"
    return [message.content for message in (await thread.state()).messages[before:] if message.role == "tool"]


async def budget(thread: Thread) -> Any:
    return (await thread.state()).more["budget"]


def test_it_shows_what_was_paid_what_was_refused_and_the_bill(tmp_path: Path) -> None:
    printed = run("custom_middleware", folder=tmp_path)

    assert [line.partition(":")[0] for line in printed.splitlines() if line[0] in "✓✗"] == [
        "✓ slogan",
        "✓ poster",
        "✗ poster",
        "✓ poster",
        "✗ poster",
        "✓ credits_left",
    ]
    assert "it costs 40 credits, and 15 are left" in printed
    assert "85 of 100 credits spent" in printed
    assert "│ poster │ 2     │ 80      │" in printed
    assert list(tmp_path.iterdir()) == []


async def test_the_expenses_are_in_the_threads_file_and_hold_when_it_is_opened_again(tmp_path: Path) -> None:
    async with open_thread(system, tmp_path / "t.db", agent="advertiser") as thread:
        await order(thread, "rolls", "cake")
    async with open_thread(system, tmp_path / "t.db") as thread:
        (refused,) = await order(thread, "bread")
        assert await budget(thread) == {"granted": 100, "spent": 80, "expenses": [["poster", "2", "80"]]}

    assert "it costs 40 credits, and 20 are left" in refused


async def test_a_call_that_fails_is_free(tmp_path: Path) -> None:
    async with open_thread(system, tmp_path / "t.db", agent="advertiser") as thread:
        (failed,) = await order(thread, "soup")
        assert (await budget(thread))["spent"] == 0

    assert "we do not sell soup" in failed


async def test_the_model_is_told_what_is_left(tmp_path: Path) -> None:
    model = ScriptedModel(["hello"])
    other = (
        AgentSystem("scripted:any", providers={"scripted": model})
        .use(Budget())
        .add_tool(poster)
        .add_agent(
            name="painter",
            description="Paints.",
            prompt="You paint.",
            tags=["default", "budget"],
            config={"budget": {"granted": 7, "prices": {"poster": 3}}},
        )
    )
    async with open_thread(other, tmp_path / "t.db", agent="painter") as thread:
        await thread.invoke("hello")
        await thread.wait(60)

    assert "You have 7 credits left. Prices: {'poster': 3}." in model.requests[0].system


def test_a_wrong_configuration_is_refused_before_anything_runs() -> None:
    wrong = AgentSystem("demo:instant").use(Budget())
    wrong.add_agent(name="a", description="A.", prompt="A.", tags=["budget"], config={"budget": {"granted": -1}})

    with pytest.raises(DefinitionError, match=r"config\.budget"):
        assert wrong.agents
