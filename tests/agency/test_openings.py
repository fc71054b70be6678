"""What middleware keep open: when it is opened and closed, and that one that cannot open keeps no thread shut."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from agency import (
    AgentSystem,
    HookContext,
    LocalRuntime,
    Middleware,
    ProcessContext,
    Thread,
    ThreadMetadata,
    Tool,
    secret,
    tool,
)
from agency.backoff import Backoff
from agency.testing import Line, ScriptedModel, call
from agency.thread import openings
from tests.support.thread_files import kept
from tests.support.waiting import eventually

Hook = Callable[[], object]


@tool
async def fetch() -> str:
    """Fetch it."""
    return "fetched"


class Pool(Middleware):
    """Notes what happens to it, and does in a hook what a test wants: raise, or wait."""

    name = "pool"
    tags = ("default",)
    secrets = {"key": secret("env:POOL_KEY")}

    def __init__(self, *tools: Tool, late: bool = False) -> None:
        self.noted: list[str] = []
        self.act: dict[str, Hook] = {}
        self._tools = tools
        self._late = late

    async def _do(self, hook: str, whose: str = "") -> None:
        self.noted.append(f"{hook} {whose}".strip())
        result = self.act[hook]() if hook in self.act else None
        if asyncio.iscoroutine(result):
            await result

    async def on_init(self, ctx: HookContext) -> None:
        if not self._late:
            self._register(ctx)

    def _register(self, ctx: HookContext) -> None:
        for each in self._tools:
            ctx.register_tool(each)

    async def on_process_open(self, ctx: ProcessContext) -> None:
        if "secret" in self.act:
            self.noted.append(ctx.secret("key"))
        await self._do("open")

    async def on_process_close(self) -> None:
        await self._do("close")

    async def on_thread_open(self, ctx: HookContext) -> None:
        ctx.store.put("pool", "opened", True)
        if self._late:
            self._register(ctx)
        await self._do("open", ctx.thread.id)
        await self._do("opening")

    async def on_thread_close(self, thread: ThreadMetadata) -> None:
        await self._do("close", thread.id)
        await self._do("closing")


def fail() -> None:
    raise ConnectionError("the server is away")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has failed is tried again without a wait."""
    monkeypatch.setattr(openings, "AGAIN", Backoff(0.0, 0.0))
    monkeypatch.setattr(openings, "OPEN_SECONDS", 0.2)
    monkeypatch.setattr(openings, "CLOSE_SECONDS", 0.2)


def system_of(pool: Pool, *script: Line) -> tuple[AgentSystem, ScriptedModel]:
    model = ScriptedModel(script or ["done"])
    system = AgentSystem("scripted:any", providers={"scripted": model}).use(pool)
    system.add_agent(name="clerk", description="Does clerical work.", prompt="You are a clerk.")
    return system, model


async def ran(thread: Thread, said: str = "go") -> str:
    await thread.invoke(said)
    return str((await thread.wait(timeout=10)).data)


def offered(model: ScriptedModel) -> list[list[str]]:
    """The tools of each request."""
    return [[each.name for each in request.tools] for request in model.requests]


# When.


async def test_a_process_opens_once_and_each_thread_for_itself(tmp_path: Path) -> None:
    pool = Pool(fetch)
    system, model = system_of(pool)
    async with LocalRuntime(system, tmp_path) as runtime:
        assert pool.noted == []
        one, two = [await runtime.create_thread("clerk", thread_id=name) for name in ("one", "two")]
        assert pool.noted == ["open", "open one", "opening", "open two", "opening"]
        assert [await ran(thread) for thread in (one, two)] == ["done", "done"]
        pool.noted.clear()
    assert sorted(pool.noted[:-1]) == ["close one", "close two", "closing", "closing"]
    assert pool.noted[-1] == "close"
    assert offered(model) == [["fetch"], ["fetch"]]


async def test_runtimes_of_one_system_share_it_and_the_last_one_closes_it(tmp_path: Path) -> None:
    pool = Pool()
    system, _ = system_of(pool)
    async with LocalRuntime(system, tmp_path / "a") as first:
        await first.create_thread("clerk")
        async with LocalRuntime(system, tmp_path / "b") as second:
            await second.create_thread("clerk")
        assert "close" not in pool.noted
    assert (pool.noted.count("open"), pool.noted.count("close")) == (1, 1)
    async with LocalRuntime(system, tmp_path / "a") as again:
        await again.create_thread("clerk")
    assert (pool.noted.count("open"), pool.noted.count("close")) == (2, 2)


# What cannot open.


async def test_one_that_cannot_open_keeps_no_thread_shut_and_its_tools_come_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pool = Pool(fetch)
    pool.act["open"] = fail
    system, model = system_of(pool, call("fetch"), "I cannot.", call("fetch"), "I can.")
    problem = "middleware 'pool' failed in on_process_open: ConnectionError: the server is away"
    async with LocalRuntime(system, tmp_path) as runtime:
        with caplog.at_level(logging.WARNING):
            thread = await runtime.create_thread("clerk")
            assert await ran(thread) == "I cannot."
        assert offered(model) == [[], []]
        assert f"The tools fetch are not available now: {problem}" in model.requests[0].system
        run, state = thread.run(), await thread.state()
        assert [(each.kind, problem in each.message) for each in run.meta.warnings] == [("tools_unavailable", True)]
        assert state.more["unavailable"] == {"pool": problem}
        (refused,) = [each.content for each in state.messages if each.role == "tool"]
        assert f"fetch is not available now: {problem}" in refused
        assert f"{problem}; it is tried again after 0 s" in caplog.text
        del pool.act["open"]
        assert await ran(thread, "again") == "I can."
        assert offered(model)[2:] == [["fetch"], ["fetch"]]
        assert "not available" not in model.requests[2].system
        assert "unavailable" not in (await thread.state()).more
        assert (await thread.state()).messages[-2].content == "fetched"


async def test_an_attempt_that_fails_is_closed_taken_back_and_made_again(tmp_path: Path) -> None:
    pool = Pool(fetch, late=True)
    pool.act["opening"] = fail
    system, model = system_of(pool, "without", "with")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="one")
        assert pool.noted == ["open", "open one", "opening", "close one", "closing"]
        assert kept(tmp_path / "one.db", "pool") == {}
        assert await ran(thread) == "without"
        assert "What pool provides is not available now" in model.requests[0].system
        pool.act.clear()
        assert await ran(thread) == "with"
        assert offered(model) == [[], ["fetch"]]
        assert kept(tmp_path / "one.db", "pool") == {"opened": True}


async def test_what_hangs_is_left_behind(tmp_path: Path) -> None:
    pool = Pool(fetch)
    system, model = system_of(pool)
    pool.act["open"] = pool.act["close"] = pool.act["closing"] = lambda: asyncio.sleep(60)
    async with asyncio.timeout(10):
        async with LocalRuntime(system, tmp_path) as runtime:
            thread = await runtime.create_thread("clerk")
            assert await ran(thread) == "done"
            assert (await thread.state()).more["unavailable"] == {
                "pool": "middleware 'pool' failed in on_process_open: it took longer than 0.2 s"
            }
    assert offered(model) == [[]]


async def test_it_is_not_tried_again_before_a_while_has_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openings, "AGAIN", Backoff(60.0, 60.0))
    pool = Pool(fetch)
    pool.act["open"] = fail
    system, _ = system_of(pool)
    async with LocalRuntime(system, tmp_path) as runtime:
        for _ in range(3):
            assert await ran(await runtime.create_thread("clerk")) == "done"
    assert pool.noted == ["open", "close"]


async def test_what_was_being_opened_when_the_thread_was_given_up_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openings, "OPEN_SECONDS", 60.0)
    pool = Pool()
    pool.act["opening"] = lambda: asyncio.sleep(60)
    system, _ = system_of(pool)
    async with LocalRuntime(system, tmp_path) as runtime:
        creating = asyncio.create_task(runtime.create_thread("clerk", thread_id="one"))
        await eventually(lambda: "opening" in pool.noted)
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating
        assert pool.noted[-2:] == ["close one", "closing"]
    assert pool.noted[-1] == "close"


async def test_what_closing_raises_is_logged_and_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pool = Pool()
    pool.act["close"] = pool.act["closing"] = fail
    system, _ = system_of(pool)
    async with LocalRuntime(system, tmp_path) as runtime:
        assert await ran(await runtime.create_thread("clerk")) == "done"
    assert "failed in on_thread_close: ConnectionError: the server is away" in caplog.text
    assert "failed in on_process_close: ConnectionError: the server is away" in caplog.text


async def test_a_secret_that_is_missing_is_named_and_its_value_is_never_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Pool(fetch)
    pool.act["secret"] = fail
    system, model = system_of(pool, "one", "two", "three")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await ran(thread)
        assert "NoSecret: env:POOL_KEY is not set" in model.requests[0].system
        value = "pool-key-0815"
        monkeypatch.setenv("POOL_KEY", value)

        def say_it() -> None:
            raise ConnectionError(f"refused {value}")

        pool.act["open"] = say_it
        await ran(thread)
        assert value in pool.noted
        assert "refused [redacted]" in model.requests[1].system
        assert value not in str(await thread.state())
        del pool.act["open"]
        await ran(thread)
    assert offered(model) == [[], [], ["fetch"]]
