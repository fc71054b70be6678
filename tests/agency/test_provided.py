"""`ctx.deps`: what a system provides reaches tools and hooks, typed, opened once in a process, and is never stored."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, assert_type

import pytest

from agency import AgentSystem, DefinitionError, HookContext, LocalRuntime, Middleware, Plan, ToolContext, tool
from agency.backoff import Backoff
from agency.define.provided import ProvidesNothing
from agency.testing import Line, ScriptedModel, call
from agency.thread import supply
from agency.thread.openings import try_openings


class Shop:
    def __init__(self, name: str = "bakery") -> None:
        self.name = name
        self.is_open = False

    def price(self, item: str) -> str:
        return f"{item} of the {self.name}: 3"


@tool
async def price(item: str, ctx: ToolContext[Shop]) -> str:
    """What does it cost?"""
    assert_type(ctx.deps, Shop)
    return ctx.deps.price(item)


@tool
def price_sync(item: str, ctx: ToolContext[Shop]) -> str:
    """What does it cost?"""
    return ctx.deps.price(item)


class Greeting(Middleware[None, None, Shop]):
    name = "greeting"
    tags = ("default",)

    async def before_model(self, ctx: HookContext[None, None, Shop], plan: Plan) -> None:
        assert_type(ctx.deps, Shop)
        plan.add_prompt(f"Welcome to the {ctx.deps.name}.")


def system_of(*middleware: Middleware[Any, Any, Any], tools: Any = (price, price_sync)) -> AgentSystem:
    script: list[Line] = [[call("price", item="rye"), call("price_sync", item="rye")], "done"]
    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)})
    for mw in middleware:
        system.use(mw)
    for each in tools:
        system.add_tool(each)
    return system.add_agent(name="clerk", description="Sells.", prompt="You sell.")


async def told(system: AgentSystem) -> list[str]:
    """What the tools return in one run."""
    made = await system.run("clerk", "What does rye cost?")
    return [message.content for message in made.thread.messages if message.role == "tool"]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supply, "AGAIN", Backoff(0.0, 0.0))


async def test_tools_and_hooks_get_an_object() -> None:
    system = system_of(Greeting()).provide(Shop())
    made = await system.run("clerk", "What does rye cost?")

    assert [m.content for m in made.thread.messages if m.role == "tool"] == ["rye of the bakery: 3"] * 2


async def test_a_test_puts_another_one_in_its_place() -> None:
    system = system_of().provide(Shop())
    with system.replaced(Shop("test")):
        assert await told(system) == ["rye of the test: 3"] * 2
    assert await told(system) == ["rye of the bakery: 3"] * 2
    assert await told(system.provide(Shop("mill"))) == ["rye of the mill: 3"] * 2


async def test_a_factory_is_opened_once_in_a_process_and_closed_at_its_end(tmp_path: Path) -> None:
    shops: list[Shop] = []

    @asynccontextmanager
    async def open_shop() -> AsyncIterator[Shop]:
        shops.append(Shop())
        shops[-1].is_open = True
        yield shops[-1]
        shops[-1].is_open = False

    system = system_of(Greeting()).provide(factory=open_shop)
    async with LocalRuntime(system, tmp_path) as runtime:
        for thread in [await runtime.create_thread("clerk") for _ in range(2)]:
            await thread.invoke("What does rye cost?")
            assert (await thread.wait(10)).data == "done"
            assert shops[0].is_open
    assert [shop.is_open for shop in shops] == [False]
    assert await told(system) == ["rye of the bakery: 3"] * 2  # a second runtime opens its own
    assert len(shops) == 2
    with system.replaced(Shop("test")):
        assert await told(system) == ["rye of the test: 3"] * 2
    assert len(shops) == 2  # what is replaced is not opened


async def test_what_cannot_be_opened_is_said_and_tried_again() -> None:
    tries = 0

    @asynccontextmanager
    async def open_shop() -> AsyncIterator[Shop]:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionError("the shop is closed")
        yield Shop()

    system = system_of().provide(factory=open_shop)
    assert (await try_openings(system)) == {
        "deps": "what the system provides could not be opened: ConnectionError: the shop is closed"
    }
    assert await told(system) == ["rye of the bakery: 3"] * 2  # not when the thread was opened, but before the model
    assert tries == 3


async def test_a_call_without_it_fails_and_the_run_goes_on() -> None:
    shut = True

    @asynccontextmanager
    async def open_shop() -> AsyncIterator[Shop]:
        if not shut:
            yield Shop()
        raise ConnectionError("the shop is closed")

    results = await told(system_of().provide(factory=open_shop))
    assert all("the shop is closed" in result for result in results)


def test_a_tool_that_wants_what_the_system_does_not_provide_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"tool 'price' wants ctx\.deps, and the system has none"):
        assert system_of().agents
    with pytest.raises(DefinitionError, match="to be Shop, and the system provides int"):
        assert system_of().provide(7).agents
    with pytest.raises(DefinitionError, match="one of them"):
        system_of().provide()
    with pytest.raises(DefinitionError, match="one of them"):
        system_of().provide(Shop(), factory=Shop)  # type: ignore[arg-type]  # a wrong definition


async def test_it_does_not_travel_to_other_processes() -> None:
    sent = pickle.loads(pickle.dumps(supply.Supply(system_of().provide(Shop()).provision)))
    assert isinstance(sent, ProvidesNothing)


async def test_a_factory_that_makes_no_async_context_manager_is_told_so() -> None:
    async def undecorated() -> AsyncIterator[Shop]:
        yield Shop()

    async def awaited() -> Shop:
        return Shop()

    for factory in (undecorated, awaited):
        with pytest.raises(DefinitionError, match=f"{factory.__name__} makes no async .* with @asynccontextmanager"):
            system_of().provide(factory=factory)  # type: ignore[arg-type]
    results = await told(system_of().provide(factory=Shop))  # type: ignore[arg-type]
    assert all("the factory gives a Shop and makes no async context manager" in result for result in results)
