"""Stopping: whatever is canceled, closed or said too late, nothing new begins and nothing that was accepted is lost."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Literal

import pytest

from agency import (
    AgentSystem,
    Deferred,
    EventType,
    Finish,
    HookContext,
    LocalRuntime,
    Middleware,
    ModelRequest,
    Thread,
    Tool,
    ToolCall,
    ToolContext,
    WrongState,
    open_thread,
    tool,
)
from agency.store import sqlite
from agency.testing import Line, ScriptedModel, call
from middleware import subagents
from tests.support.waiting import turns_of_the_loop

Build = Callable[..., tuple[LocalRuntime, ScriptedModel]]
Part = Callable[[ModelRequest], Line | Awaitable[Line]]
PATIENCE = 10.0


def said(request: ModelRequest) -> int:
    """How many replies the conversation has had."""
    return sum(message.role == "assistant" for message in request.messages)


async def transcript(thread: Thread) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in (await thread.state()).messages]


async def kinds(thread: Thread) -> list[str]:
    return [event.type.value async for event in thread.events(follow=False)]


async def until(thread: Thread, event_type: EventType, **data: Any) -> None:
    """Return when such an event has happened."""
    async with asyncio.timeout(PATIENCE):
        async for event in thread.events():
            if event.type == event_type and data.items() <= event.data.items():
                return
    raise AssertionError(f"the thread closed without {event_type}")


def family(parts: dict[str, Part], *tools: Tool) -> AgentSystem:
    """A system of agents that play their parts and may start each other."""

    async def script(request: ModelRequest) -> Line:
        line = parts[request.system.split()[0]](request)
        return await line if isinstance(line, Awaitable) else line

    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)})
    system.use(subagents, tags=["default"])
    for each in tools:
        system.add_tool(each)
    for name in parts:
        system.add_agent(name=name, description=f"Is {name}.", prompt=name)
    return system


class Tidy:
    """A tool that hangs until it is stopped, and then takes its time to clean up."""

    def __init__(self) -> None:
        self.started, self.cleaning, self.go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.log: list[str] = []

        @tool
        async def tidy() -> None:
            self.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.log.append("begins to clean up")
                self.cleaning.set()
                await self.go_on.wait()
                self.log.append("has cleaned up")

        self.tool = tidy


# Canceling.


async def test_after_a_tool_that_swallows_its_cancellation_no_further_call_begins(build: Build) -> None:
    started, ran = asyncio.Event(), list[str]()

    @tool
    async def swallow() -> str:
        started.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "never mind"

    @tool
    async def pay() -> None:
        ran.append("pay")

    runtime, model = build([[call("swallow", call_id="s"), call("pay", call_id="p")], call("pay")], swallow, pay)
    async with runtime, asyncio.timeout(PATIENCE):
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await started.wait()
        await thread.cancel()
        assert thread.run().status == "canceled"
        await turns_of_the_loop()
        assert (ran, len(model.requests)) == ([], 1)
        assert "Canceled: the run was canceled." in [text for _, text in await transcript(thread)]
        begun = [e.data["callId"] async for e in thread.events(follow=False) if e.type == EventType.TOOL_STARTED]
        assert begun == ["s"]


async def test_a_cancel_whose_caller_goes_away_still_takes_effect(build: Build) -> None:
    tidy = Tidy()
    runtime, _ = build([call("tidy"), "here again"], tidy.tool)
    async with runtime, asyncio.timeout(PATIENCE):
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await tidy.started.wait()
        impatient = asyncio.create_task(thread.cancel())
        await tidy.cleaning.wait()
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        tidy.go_on.set()
        assert (await thread.wait()).status == "canceled"
        assert tidy.log == ["begins to clean up", "has cleaned up"]
        assert (await thread.invoke("and now?")).run_id == f"{thread.id}.2"
        assert (await thread.wait()).data == "here again"


async def test_a_second_cancel_does_not_interrupt_a_tools_clean_up(build: Build) -> None:
    tidy = Tidy()
    runtime, _ = build([call("tidy")], tidy.tool)
    async with runtime, asyncio.timeout(PATIENCE):
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await tidy.started.wait()
        first = asyncio.create_task(thread.cancel())
        await tidy.cleaning.wait()
        second = asyncio.create_task(thread.cancel())
        await turns_of_the_loop()
        assert not first.done() and not second.done()
        tidy.go_on.set()
        await asyncio.gather(first, second)
        assert tidy.log == ["begins to clean up", "has cleaned up"]
        assert (await kinds(thread)).count("run.canceled") == 1


async def test_a_tool_may_cancel_its_own_thread(build: Build) -> None:
    opened: list[Thread] = []

    @tool
    async def stop() -> str:
        await opened[0].cancel()
        return "never"

    runtime, _ = build([call("stop"), "here again"], stop)
    async with runtime, asyncio.timeout(PATIENCE):
        thread = await runtime.create_thread("clerk")
        opened.append(thread)
        await thread.invoke("go")
        assert (await thread.wait()).status == "canceled"
        await thread.invoke("and now?")
        assert (await thread.wait()).data == "here again"


async def test_a_cancel_that_ends_after_the_next_run_began_leaves_that_run_alone_and_stoppable(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agency.thread.effect_loop.STOP_GRACE", 0.05)
    release, asked, stopped, told = asyncio.Event(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                told.set()
        return "too late"

    async def script(request: ModelRequest) -> Line:
        if said(request) == 0:
            return call("stubborn")
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    runtime, _ = build(script, stubborn)
    async with runtime, asyncio.timeout(PATIENCE):
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await until(thread, EventType.TOOL_STARTED)

        async def cancel_and_go_on() -> None:
            await thread.cancel()
            await thread.invoke("next")

        async def cancel_a_little_later() -> None:
            await told.wait()
            await asyncio.sleep(0.05)  # half of the time that the first gives the tool: this one would end later
            await thread.cancel()

        try:
            await asyncio.gather(cancel_and_go_on(), cancel_a_little_later())
            await asked.wait()
            assert (thread.run_state().run_id, thread.run_state().status) == (f"{thread.id}.2", "running")
            await thread.cancel()
            assert stopped.is_set()
            assert thread.run().status == "canceled"
        finally:
            release.set()


async def test_canceling_a_run_that_waits_for_a_child_tells_the_ends_of_call_and_child_before_its_own(
    tmp_path: Path,
) -> None:
    async def never(request: ModelRequest) -> Line:
        await asyncio.Event().wait()
        return "never"

    def boss(request: ModelRequest) -> Line:
        return call("task", call_id="t", description="work", subagentType="worker")

    async with open_thread(family({"boss": boss, "worker": never}), tmp_path / "boss.db", agent="boss") as thread:
        await thread.invoke("go")
        await until(thread, EventType.RUN_PAUSED)
        before = len(await kinds(thread))
        await thread.cancel()
        assert (await kinds(thread))[before:] == [
            "tool.error",
            "subagent.completed",
            "capabilities.resolved",
            "run.canceled",
        ]
        assert (await transcript(thread))[-1] == ("tool", "Canceled: the run was canceled.")


# Closing.


async def test_a_tool_that_starts_a_child_while_its_thread_closes_has_that_child_started_at_the_next_opening(
    tmp_path: Path,
) -> None:
    started, asked = asyncio.Event(), list[str]()

    @tool
    async def delegate(ctx: ToolContext) -> Deferred:
        started.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return ctx.spawn("worker", "work", timeout_ms=60_000)

    def boss(request: ModelRequest) -> Line:
        return call("delegate") if said(request) == 0 else "thanks"

    def worker(request: ModelRequest) -> Line:
        asked.append("worker")
        return "done"

    system = family({"boss": boss, "worker": worker}, delegate)
    async with asyncio.timeout(PATIENCE):
        before = asyncio.all_tasks()
        async with open_thread(system, tmp_path / "boss.db", agent="boss") as thread:
            await thread.invoke("go")
            await started.wait()
        assert asyncio.all_tasks() == before  # nobody is left who could begin anything
        assert asked == []
        async with open_thread(system, tmp_path / "boss.db") as thread:
            assert (await thread.wait()).data == "thanks"
        assert asked == ["worker"]


async def test_readers_that_are_behind_when_the_thread_closes_end_cleanly(build: Build) -> None:
    runtime, _ = build(["one two three"])
    async with runtime, asyncio.timeout(PATIENCE):
        thread = await runtime.create_thread("clerk")
        early, unread = thread.events(), thread.events()
        first = await anext(early)
        await thread.invoke("go")
        await thread.wait()
        late = thread.events()
        await anext(late)
        await thread.close()
        assert first.seq == 1
        for reader in (early, unread, late):
            seqs = [event.seq async for event in reader if event.seq is not None]
            assert seqs == sorted(seqs)
        assert [event async for event in thread.events()] == []


async def test_a_reader_that_waits_for_more_when_the_thread_closes_ends(build: Build) -> None:
    runtime, _ = build(["one"])
    async with runtime, asyncio.timeout(PATIENCE):
        thread = await runtime.create_thread("clerk")
        waits = asyncio.Event()

        async def read() -> int:
            count = 0
            async for _ in thread.events():
                count += 1
                waits.set()
            return count

        reader = asyncio.create_task(read())
        await waits.wait()
        await turns_of_the_loop()
        await thread.close()
        assert await reader == 1


async def test_a_closed_thread_refuses_everything_in_one_way(build: Build) -> None:
    runtime, _ = build(["one"])
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(PATIENCE)
    with pytest.raises(WrongState, match="is closed"):
        thread.run()
    uses: list[Awaitable[object]] = [
        thread.invoke("more"),
        thread.state(),
        thread.wait(PATIENCE),
        thread.cancel(),
        thread.approve(),
        thread.lift_limits(turns=3),
    ]
    for use in uses:
        with pytest.raises(WrongState):
            await use
    await thread.close()  # once more does no harm


CLOSES_WHILE_A_WORKER_THREAD_READS = """
import asyncio, sys, threading
from pathlib import Path
from agency import AgentSystem, ToolContext, open_thread, tool
from agency.testing import ScriptedModel, call

SLOW = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 20000) SELECT max(x) FROM c"

async def main():
    loop = asyncio.get_running_loop()
    for number in range(12):
        reading = asyncio.Event()

        @tool
        def read(ctx: ToolContext) -> str:
            for count in range(3000):
                ctx.store.put("owner", "key", 1)
                ctx.store.query(SLOW)
                if count == 10:
                    loop.call_soon_threadsafe(reading.set)
            return "read"

        system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel([call("read"), "end"])})
        system.add_tool(read).add_agent(name="a", description="d", prompt="p")
        async with open_thread(system, Path(sys.argv[1]) / f"{number}.db", agent="a") as thread:
            await thread.invoke("go")
            await reading.wait()

    for left_behind in threading.enumerate():
        if left_behind.name == "tool":
            left_behind.join(20)

asyncio.run(main())
print("alive")
"""


def test_closing_while_a_sync_tool_reads_in_its_worker_thread_does_not_bring_down_the_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLOSES_WHILE_A_WORKER_THREAD_READS, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


# What is said while a run ends.


class Closing:
    """A tool that ends the run with a value, when it is told to."""

    def __init__(self) -> None:
        self.started, self.go_on = asyncio.Event(), asyncio.Event()

        @tool
        async def finish() -> Finish:
            self.started.set()
            await self.go_on.wait()
            return Finish(value="the end")

        self.tool = finish


async def test_a_message_too_late_for_a_run_that_a_tool_ends_starts_the_next_run(build: Build) -> None:
    end = Closing()
    runtime, _ = build([call("finish", call_id="f"), "order 8 is on its way"], end.tool)
    async with runtime, asyncio.timeout(PATIENCE):
        thread = await runtime.create_thread("clerk")
        await thread.invoke("order 7?")
        await end.started.wait()
        await thread.invoke("and order 8?")
        end.go_on.set()
        result = await thread.wait()
        assert (result.run_id, result.data) == (f"{thread.id}.2", "order 8 is on its way")
        assert [text for role, text in await transcript(thread) if role == "user"] == ["order 7?", "and order 8?"]
        assert (await kinds(thread)).count("agent.completed") == 2


async def test_a_message_too_late_for_a_run_is_answered_once_though_the_thread_closes_before_the_answer(
    build: Build,
) -> None:
    end, asked = Closing(), asyncio.Event()

    async def never(request: ModelRequest) -> Line:
        if said(request) == 0:
            return call("finish")
        asked.set()
        await asyncio.Event().wait()
        return "never"

    runtime, _ = build(never, end.tool)
    async with runtime, asyncio.timeout(PATIENCE):
        thread = await runtime.create_thread("clerk")
        await thread.invoke("order 7?")
        await end.started.wait()
        await thread.invoke("and order 8?")
        end.go_on.set()
        await asked.wait()
    runtime, _ = build([call("finish"), "order 8 is on its way"], end.tool)
    async with runtime:
        thread = await runtime.thread(thread.id)
        result = await thread.wait(PATIENCE)
        assert (result.run_id, result.data) == (f"{thread.id}.2", "order 8 is on its way")
        assert [text for role, text in await transcript(thread) if role == "user"] == ["order 7?", "and order 8?"]


async def test_a_message_too_late_for_a_run_survives_a_crash_between_that_run_and_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, end, crashes = tmp_path / "clerk.db", Closing(), list[str]()
    script: list[Line] = [call("finish"), "order 8 is on its way"]
    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)}).add_tool(end.tool)
    system.add_agent(name="clerk", description="d", prompt="p")

    def crash_between_the_runs(moment: Literal["before", "after"]) -> None:
        with closing(sqlite3.connect(path)) as db:
            runs = db.execute("SELECT n, status FROM runs").fetchall()
        if moment == "before" and runs == [(1, "completed")]:
            crashes.append("crash")
            raise OSError("the disk is gone")

    async with open_thread(system, path, agent="clerk") as thread:
        await thread.invoke("order 7?")
        await end.started.wait()
        await thread.invoke("and order 8?")
        monkeypatch.setattr(sqlite, "commit_hook", crash_between_the_runs)
        end.go_on.set()
        with pytest.raises(OSError, match="the disk is gone"):
            await thread.wait(PATIENCE)
    monkeypatch.setattr(sqlite, "commit_hook", None)
    assert crashes == ["crash"]
    async with open_thread(system, path) as thread:
        result = await thread.wait(PATIENCE)
        assert (result.run_id, result.data) == (f"{thread.id}.2", "order 8 is on its way")
        assert [text for role, text in await transcript(thread) if role == "user"] == ["order 7?", "and order 8?"]


async def test_a_message_accepted_before_a_crash_joins_the_run_after_it(build: Build) -> None:
    release = asyncio.Event()

    @tool
    async def wait() -> str:
        await release.wait()
        return "waited"

    runtime, _ = build([call("wait"), "both seen"], wait)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("one")
        await until(thread, EventType.TOOL_STARTED)
        await thread.invoke("two")
    release.set()
    runtime, model = build([call("wait"), "both seen"], wait)
    async with runtime:
        thread = await runtime.thread(thread.id)
        result = await thread.wait(PATIENCE)
        assert (result.run_id, result.data) == (f"{thread.id}.1", "both seen")
        assert [m.content for m in model.requests[-1].messages if m.role == "user"] == ["one", "two"]


class Reminder(Middleware):
    """Says something when a call has ended."""

    name = "reminder"

    async def on_tool_result(self, ctx: HookContext, call: ToolCall, result: str) -> None:
        ctx.inject("user", "Remember the milk.")


async def test_what_only_middleware_said_too_late_starts_no_run_and_joins_the_next(tmp_path: Path) -> None:
    @tool
    async def finish() -> Finish:
        return Finish("done")

    def script(request: ModelRequest) -> Line:
        return call("finish") if request.messages[-1].content == "first" else "answer"

    model = ScriptedModel(script)
    system = AgentSystem("scripted:any", providers={"scripted": model}).use(Reminder(), tags=["default"])
    system.add_tool(finish).add_agent(name="clerk", description="d", prompt="p")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("first")
        assert (await thread.wait(PATIENCE)).data == "done"
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.thread(thread.id)
        assert thread.run_state().run_id == f"{thread.id}.1"
        await thread.invoke("second")
        assert (await thread.wait(PATIENCE)).meta.turns == 2
        assert [m.content for m in model.requests[-1].messages if m.role == "user"] == [
            "first",
            "second",
            "Remember the milk.",
        ]
