"""When SDKs are imported, and how long their clients live."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from agency import AgentSystem, DefinitionError
from agency.models.providers import STOCK
from agency.models.providers.pools import Pools
from agency.testing import ScriptedModel

SDKS = {"openai", "anthropic", "httpx", "httpx2", "aiohttp", "genai_prices"}


def loaded_by(program: str) -> set[str]:
    report = f"{program}\nimport sys; print(*(name for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", report], check=True, capture_output=True, text=True)
    return SDKS & set(done.stdout.split())


def test_a_system_loads_no_sdk_before_it_is_prepared_and_then_those_of_its_models() -> None:
    system = "from agency import AgentSystem; system = AgentSystem('openai:x')"
    assert loaded_by(system) == set()
    prepared = loaded_by(f"{system}; system.prepare()")
    assert prepared >= {"openai", "aiohttp", "genai_prices"}
    assert "anthropic" not in prepared
    agent = "system.add_agent(name='a', description='-', prompt='-', model='anthropic:y')"
    assert loaded_by(f"{system}; {agent}; system.prepare()") >= {"openai", "anthropic"}


def test_providers_are_there_without_being_named_and_can_be_replaced() -> None:
    mine = ScriptedModel([])
    system = AgentSystem("openai:gpt", providers={"anthropic": mine})
    assert system.model("openai:gpt") == (STOCK["openai"], "gpt")
    assert system.model("anthropic:claude") == (mine, "claude")


def test_a_provider_that_cannot_be_prepared_says_which() -> None:
    class Broken(ScriptedModel):
        def prepare(self) -> None:
            raise ImportError("no module named nothing")

    with pytest.raises(DefinitionError, match="'mine:any' cannot be prepared: no module named nothing"):
        AgentSystem("mine:any", providers={"mine": Broken([])}).prepare()


def test_each_loop_has_one_pool_which_is_closed_with_it() -> None:
    made: list[Pool] = []

    class Pool:
        closed_in: asyncio.AbstractEventLoop | None = None

        def __init__(self) -> None:
            made.append(self)

        async def aclose(self) -> None:
            self.closed_in = asyncio.get_running_loop()

    pools = Pools(Pool)

    async def use() -> asyncio.AbstractEventLoop:
        first, second = await asyncio.gather(pools.get(), pools.get())
        assert first is second
        assert first.closed_in is None
        return asyncio.get_running_loop()

    loops = [asyncio.run(use()) for _ in range(2)]
    assert [pool.closed_in for pool in made] == loops


async def test_a_pool_that_cannot_be_made_is_tried_again_the_next_time() -> None:
    class Pool:
        async def aclose(self) -> None:
            """There is nothing to close."""

    attempts: list[int] = []

    def make() -> Pool:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("not yet")
        return Pool()

    pools = Pools(make)
    with pytest.raises(ValueError, match="not yet"):
        await pools.get()
    assert await pools.get() is await pools.get()
    assert len(attempts) == 2


def test_a_provider_that_was_not_prepared_is_loaded_beside_the_event_loop() -> None:
    program = """
import asyncio, sys, threading, importlib
from agency.models.interface import ModelParams, ModelRequest
from agency.models.providers import STOCK

importer = []

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "openai":
            importer.append(threading.current_thread() is threading.main_thread())

sys.meta_path.insert(0, Watch())
request = ModelRequest(model="m", system="", messages=[], tools=(), params=ModelParams(), key="k")

async def main():
    try:
        await STOCK["openai"].respond(request, print)
    except Exception as error:
        print(type(error).__name__, importer)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={}, check=True)
    assert done.stdout == "ModelError [False]\n"
