"""Middleware set timers of their own: each is told at least once, also after the thread was closed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agency import AgentSystem, HookContext, InvalidInput, LocalRuntime, Middleware, ModelRequest, RunEnd, WrongState
from agency.clock import now_ms
from agency.testing import Line, ScriptedModel
from tests.support.waiting import eventually

PATIENCE = 10.0
HOUR = 3_600_000


class Alarm(Middleware[None]):
    name = "alarm"

    def __init__(self) -> None:
        self.fired: list[str] = []
        self.wanted: list[tuple[str, Any]] = []
        self.canceled: list[str] = []
        self.says: str | None = None
        self.again = 0
        self.fails = False
        self.errors: list[Exception] = []
        self.waits: asyncio.Event | None = None

    async def on_run_start(self, ctx: HookContext[None]) -> None:
        for name, at in self.wanted:
            try:
                ctx.timers.set(name, at)
            except Exception as error:
                self.errors.append(error)
        for name in self.canceled:
            ctx.timers.cancel(name)

    async def on_timer(self, ctx: HookContext[None], name: str) -> None:
        self.fired.append(name)
        ctx.store.put(self.name, "fired", [*self._kept(ctx), name])
        if self.waits is not None:
            await self.waits.wait()
        if self.fails:
            raise RuntimeError("no bell")
        if self.again:
            self.again -= 1
            ctx.timers.set(name, now_ms())
        if self.says is not None:
            ctx.inject("user", self.says, next_run=True)

    def _kept(self, ctx: HookContext[None]) -> list[Any]:
        kept = ctx.store.get(self.name, "fired")
        return kept if isinstance(kept, list) else []

    async def state(self, ctx: HookContext[None]) -> dict[str, Any]:
        return {"fired": self._kept(ctx)}


def opened(folder: Path, alarm: Alarm) -> LocalRuntime:
    def line(request: ModelRequest) -> Line:
        return f"heard {request.messages[-1].content}"

    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(line)}).use(alarm, tags=["default"])
    return LocalRuntime(system.add_agent(name="clerk", description="d", prompt="p"), folder)


@pytest.fixture
def alarm() -> Alarm:
    return Alarm()


async def test_a_timer_is_told_when_it_is_due_and_then_it_is_gone(alarm: Alarm, tmp_path: Path) -> None:
    alarm.wanted = [
        ("soon", now_ms() + 100),
        ("now", datetime.now(UTC)),
        ("later", datetime.now(UTC) + timedelta(hours=1)),
    ]
    async with opened(tmp_path, alarm) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("x")
        await thread.wait(PATIENCE)
        await eventually(lambda: alarm.fired == ["now", "soon"])
        await eventually(lambda: thread.idle)
        assert (await thread.state()).more["fired"] == ["now", "soon"]
        assert thread.wake_at is not None and thread.wake_at > now_ms() + HOUR / 2


async def test_a_timer_can_be_moved_and_canceled(alarm: Alarm, tmp_path: Path) -> None:
    alarm.wanted = [("a", now_ms() + 20), ("a", now_ms() + HOUR), ("b", now_ms() + 20)]
    alarm.canceled = ["b", "never set"]
    async with opened(tmp_path, alarm) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("x")
        await thread.wait(PATIENCE)
        await asyncio.sleep(0.1)
        assert alarm.fired == [] and (thread.wake_at or 0) > now_ms() + HOUR / 2


async def test_a_timer_that_comes_due_while_the_thread_is_closed_is_told_when_it_opens(
    alarm: Alarm, tmp_path: Path
) -> None:
    alarm.wanted = [("soon", now_ms() + 300)]
    async with opened(tmp_path, alarm) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("x")
        await thread.wait(PATIENCE)
    assert alarm.fired == []
    await asyncio.sleep(0.35)
    async with opened(tmp_path, alarm):  # which wakes threads that have something to do
        await eventually(lambda: alarm.fired == ["soon"])


async def test_a_hook_that_was_cut_short_is_called_again(alarm: Alarm, tmp_path: Path) -> None:
    alarm.wanted, alarm.waits = [("soon", now_ms())], asyncio.Event()
    async with opened(tmp_path, alarm) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("x")
        await eventually(lambda: alarm.fired == ["soon"])
        assert not thread.idle
    alarm.waits = None
    async with opened(tmp_path, alarm) as runtime:
        await eventually(lambda: alarm.fired == ["soon", "soon"])
        again = await runtime.thread(thread.id)
        await eventually(lambda: again.idle)
        assert (await again.state()).more["fired"] == ["soon"]


async def test_a_hook_may_set_its_timer_again(alarm: Alarm, tmp_path: Path) -> None:
    alarm.wanted, alarm.again = [("tick", now_ms())], 3
    async with opened(tmp_path, alarm) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("x")
        await eventually(lambda: alarm.fired == ["tick"] * 4)
        await eventually(lambda: thread.wake_at is None)


async def test_a_hook_that_fails_is_logged_and_changes_nothing(
    alarm: Alarm, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    alarm.wanted, alarm.fails = [("soon", now_ms())], True
    async with opened(tmp_path, alarm) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("x")
        await eventually(lambda: alarm.fired == ["soon"])
        assert (await thread.wait(PATIENCE)).status == "completed"
        await eventually(lambda: thread.wake_at is None)
        assert (await thread.state()).more["fired"] == [] and "no bell" in caplog.text


async def test_a_timer_may_start_a_run(alarm: Alarm, tmp_path: Path) -> None:
    alarm.wanted, alarm.says = [("soon", now_ms() + 150)], "wake up"
    async with opened(tmp_path, alarm) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("x")
        assert (await thread.wait(PATIENCE)).data == "heard x"
        alarm.wanted = []
        await eventually(lambda: thread.run_state().run_id.endswith(".2"))
        assert (await thread.wait(PATIENCE)).data == "heard wake up"


@pytest.mark.parametrize(
    ("name", "at"),
    [("", 5), ("x" * 201, 5), ("a\x1fb", 5), ("x", -1), ("x", 2**60), ("x", 5.5), ("x", datetime(2030, 1, 1))],
)
async def test_a_wrong_timer_is_refused(name: str, at: Any, alarm: Alarm, tmp_path: Path) -> None:
    alarm.wanted = [(name, at)]
    async with opened(tmp_path, alarm) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("x")
        await thread.wait(PATIENCE)
        (error,) = alarm.errors
        assert isinstance(error, InvalidInput) and thread.wake_at is None


async def test_a_fork_has_no_timers(alarm: Alarm, tmp_path: Path) -> None:
    alarm.wanted = [("later", now_ms() + HOUR)]
    async with opened(tmp_path, alarm) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("x")
        await thread.wait(PATIENCE)
        assert thread.wake_at is not None and (await runtime.fork(thread.id)).wake_at is None


class Late(Alarm):
    async def on_run_end(self, ctx: HookContext[None], run: RunEnd) -> None:
        ctx.timers.set("after", now_ms())

    async def on_timer(self, ctx: HookContext[None], name: str) -> None:
        await super().on_timer(ctx, name)
        try:
            await ctx.ask_model("anything?")
        except Exception as error:
            self.errors.append(error)


async def test_without_a_run_a_timers_hook_has_none_to_charge_for_a_model(tmp_path: Path) -> None:
    alarm = Late()
    async with opened(tmp_path, alarm) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("x")
        await eventually(lambda: alarm.fired == ["after"])
        await eventually(lambda: bool(alarm.errors))
        assert isinstance(alarm.errors[0], WrongState)
