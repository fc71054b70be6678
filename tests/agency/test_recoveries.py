"""What is told when a process goes away in the middle of a run: by whom it is gone on, and what is done once more."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from agency import AgentSystem, Event, EventType, LocalRuntime, ModelRequest, Thread, ToolContext, tool
from agency.store.peek import glance
from agency.testing import Line, ScriptedModel, call
from agency.turn import effects as fx
from agency.turn.machine import TurnMachine
from middleware import hitl
from tests.support.crashes import RECOVERIES, in_a_process, started

PATIENCE = 10.0


def build(folder: Path, *, kills: bool = False) -> AgentSystem:
    @tool(safe=True)
    async def work(ctx: ToolContext) -> str:
        """Work, and take the process with it the first time, if it is to."""
        if kills and not (folder / "killed").exists():
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return "worked"

    @tool(safe=True)
    async def look() -> str:
        """Look."""
        return "seen"

    @tool
    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        raise AssertionError("never")

    def line(request: ModelRequest) -> Line:
        if request.messages[-1].role == "tool":
            return "done"
        match request.messages[-1].content:
            case "hang":
                return call("hang", call_id="h")
            case "ask":
                return call("look", call_id="l")
            case _:
                return [call("look", call_id="l"), call("work", call_id="w")]

    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(line)}).use(hitl)
    for each in (work, look, hang):
        system.add_tool(each)
    return system.add_agent(
        name="clerk", description="d", prompt="p", tags=["default", "hitl"], config={"hitl": {"tools": []}}
    ).add_agent(
        name="careful", description="d", prompt="p", tags=["default", "hitl"], config={"hitl": {"tools": ["look"]}}
    )


async def told(thread: Thread) -> list[Event]:
    return [event async for event in thread.events(follow=False)]


async def test_a_process_that_dies_in_a_call_is_told_of_and_so_is_the_second_attempt(tmp_path: Path) -> None:
    async def begin() -> None:
        async with LocalRuntime(build(tmp_path, kills=True), tmp_path) as runtime:
            thread = await runtime.create_thread("clerk", thread_id="t")
            await thread.invoke("work")
            await thread.wait(PATIENCE)

    assert in_a_process(lambda: asyncio.run(begin())) == -signal.SIGKILL
    async with LocalRuntime(build(tmp_path, kills=True), tmp_path) as runtime:
        thread = await runtime.thread("t")
        run = await thread.wait(PATIENCE)
        happened = await told(thread)
    assert run.data == "done" and run.meta.recoveries == 1
    recovered, *again = [event for event in happened if event.type in RECOVERIES]
    assert recovered.type == EventType.RUN_RECOVERED
    since = recovered.data.pop("lastWorkAt")
    assert recovered.data == {"runId": "t.1", "attempt": 2, "why": "died", "doing": "tools", "activation": 2}
    before = happened[happened.index(recovered) - 1]
    assert since == before.ts
    assert [(event.type, event.data["attempt"], event.data["why"]) for event in again] == [
        (EventType.TOOL_RETRIED, 2, "died")
    ], "of the two calls only the one that had not ended"
    assert again[0].data["callId"] == "w"
    assert [event.type for event in happened].count(EventType.TOOL_STARTED) == 2


def test_a_thread_that_is_only_taken_up_again_gets_no_further(tmp_path: Path) -> None:
    async def work() -> None:
        async with LocalRuntime(build(tmp_path, kills=True), tmp_path) as runtime:
            known = "t" in runtime.thread_ids()
            thread = await (runtime.thread("t") if known else runtime.create_thread("clerk", thread_id="t"))
            await thread.invoke("work", idempotency_key="1")
            await thread.wait(PATIENCE)

    seen = []
    for _ in range(3):
        (tmp_path / "killed").unlink(missing_ok=True)
        assert in_a_process(lambda: asyncio.run(work())) == -signal.SIGKILL
        seen.append(glance(tmp_path / "t.db"))
    assert [each.got_to for each in seen] == [seen[0].seq] * 3, "so that its deaths add up"
    assert seen[2].seq == seen[0].seq + 4, "though each recovery is two events"


async def test_a_process_that_stops_in_good_order_is_not_said_to_have_died(tmp_path: Path) -> None:
    async with LocalRuntime(build(tmp_path), tmp_path) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        await thread.invoke("hang")
        await started(thread, "h")
    for attempt in (2, 3):
        async with LocalRuntime(build(tmp_path), tmp_path) as runtime:
            thread = await runtime.thread("t")
            *_, recovered, again = await told(thread)
            assert (recovered.type, recovered.data["why"], recovered.data["attempt"]) == (
                EventType.RUN_RECOVERED,
                "stopped",
                attempt,
            )
            assert (again.type, again.data["attempt"]) == (EventType.TOOL_RETRIED, attempt)


async def test_a_run_that_waits_is_taken_up_without_a_word_whatever_became_of_its_process(tmp_path: Path) -> None:
    async def ask() -> None:
        async with LocalRuntime(build(tmp_path), tmp_path) as runtime:
            known = "t" in runtime.thread_ids()
            thread = await (runtime.thread("t") if known else runtime.create_thread("careful", thread_id="t"))
            if not known:
                await thread.invoke("ask")
            assert (await thread.wait(PATIENCE)).meta.pause_reason == "hitl"
            thread.doze(0)
            if not known:
                os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_process(lambda: asyncio.run(ask())) == -signal.SIGKILL
    assert in_a_process(lambda: asyncio.run(ask())) == 0  # closed in good order
    async with LocalRuntime(build(tmp_path), tmp_path) as runtime:
        thread = await runtime.thread("t")
        await thread.approve()
        assert (await thread.wait(PATIENCE)).meta.recoveries == 0
        assert not [event for event in await told(thread) if event.type in RECOVERIES]


def test_the_time_without_a_process_is_no_work_and_a_model_that_is_asked_again_is_told_of() -> None:
    machine = TurnMachine.begin(run=1, at=1_000, position=0, messages=[])
    while not isinstance(request := machine.poll(), fx.SyncSurface):
        pass
    surface = fx.SurfaceRef(digest="d", model="a:b")
    machine.handle(fx.SurfaceSynced(id=request.id, at=1_500, surface=surface))
    asked = _polled(machine)[-1]
    back = TurnMachine(machine.checkpoint())
    back.handle(fx.RunRecovered(at=9_000, why="died", last_at=1_400, activation=2))
    recovered, retried, again = _polled(back)
    assert again == asked
    assert isinstance(recovered, fx.Emit) and recovered.event.data["doing"] == "model"
    assert isinstance(retried, fx.Emit) and retried.event.data == {"model": "a:b", "attempt": 2, "why": "died"}
    assert back.spent(9_100).active_ms == 500 + 100


def _polled(machine: TurnMachine) -> list[fx.Effect]:
    return list(iter(machine.poll, None))
