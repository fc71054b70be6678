"""Observers see every event, once and in order, and can break nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agency import (
    AgentSystem,
    DefinitionError,
    Event,
    EventType,
    LocalRuntime,
    ModelRequest,
    Observation,
    Observer,
    Resumed,
    StaleActivation,
    Thread,
    Tool,
    tool,
)
from agency.errors import Poisoned
from agency.events import timestamp
from agency.observe import observers
from agency.store.run_so_far import PAGE
from agency.testing import Line, Script, ScriptedModel, call
from agency.thread.parking import park
from middleware import subagents

PATIENCE = 10.0


class Recorder:
    def __init__(self) -> None:
        self.seen: list[Observation] = []

    def observe(self, seen: Observation) -> None:
        self.seen.append(seen)

    def of(self, thread: Thread) -> list[tuple[int, str]]:
        return [(one.seq, one.type.value) for one in self.seen if one.thread.id == thread.id]


class Diary(Recorder):
    """It follows runs, and can be flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Resumed | str] = []

    def resumed(self, run: Resumed) -> None:
        self.told.append(run)

    def left(self, thread_id: str) -> None:
        self.told.append(thread_id)

    def flush(self) -> None:
        self.told.append("flush")


class Broken:
    """It raises whatever it is told to, wherever it is called."""

    def __init__(self, error: BaseException) -> None:
        self._error = error
        self.calls = 0

    def observe(self, seen: Observation) -> None:
        self._raise()

    def resumed(self, run: Resumed) -> None:
        self._raise()

    def left(self, thread_id: str) -> None:
        self._raise()

    def flush(self) -> None:
        self._raise()

    def _raise(self) -> None:
        self.calls += 1
        raise self._error


@tool(safe=True)
async def shout(word: str) -> str:
    return word.upper()


def system_of(script: Script, *watching: Observer, tools: Sequence[Tool] = (shout,), **agent: Any) -> AgentSystem:
    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)}).use(subagents)
    for each in tools:
        system.add_tool(each)
    system.add_agent(name="clerk", description="Does clerical work.", prompt="You are a clerk.", **agent)
    system.add_agent(name="helper", description="Helps.", prompt="You help.")
    for observer in watching:
        system.observe(observer)
    return system


async def stored(thread: Thread) -> list[Event]:
    return [event async for event in thread.events(follow=False)]


async def places(thread: Thread) -> list[tuple[int, str]]:
    return [(event.seq or 0, event.type.value) for event in await stored(thread)]


async def test_every_event_of_every_thread_is_seen_once_in_order_and_as_it_is_stored(tmp_path: Path) -> None:
    first, second = Recorder(), Recorder()

    def script(request: ModelRequest) -> Line:
        last = request.messages[-1]
        return "done" if last.role == "tool" else [call("shout", word=last.content), call("shout", word="b")]

    async with LocalRuntime(system_of(script, first, second), tmp_path) as runtime:
        threads = [await runtime.create_thread("clerk") for _ in range(5)]
        for word in ("one", "two"):
            for thread in threads:
                await thread.invoke(word)
            for thread in threads:
                assert (await thread.wait(PATIENCE)).status == "completed"
        for thread in threads:
            written, mine = await stored(thread), [one for one in first.seen if one.thread.id == thread.id]
            assert [(one.seq, one.type, timestamp(one.at)) for one in mine] == [(e.seq, e.type, e.ts) for e in written]
            owners = [{"runId": one.run_id} if one.run else {"threadId": thread.id} for one in mine]
            assert [{**owner, **one.data} for owner, one in zip(owners, mine, strict=True)] == [e.data for e in written]
            assert all(one.thread == thread.metadata for one in mine)
    assert first.seen == second.seen


async def test_children_are_seen_too_and_name_their_parent(tmp_path: Path) -> None:
    recorder = Recorder()

    def script(request: ModelRequest) -> Line:
        if [message.content for message in request.messages] == ["delegate"]:
            return call("task", description="say hello", subagentType="helper")
        return "hello"

    async with LocalRuntime(system_of(script, recorder, tags=["default", "subagents"]), tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("delegate")
        assert (await thread.wait(PATIENCE)).status == "completed"

    childs = [one for one in recorder.seen if one.thread.id != thread.id]
    assert (childs[0].type, childs[-1].type) == (EventType.THREAD_CREATED, EventType.AGENT_COMPLETED)
    assert {one.thread.parent.thread_id if one.thread.parent else None for one in childs} == {thread.id}


async def test_over_a_crash_each_event_is_seen_by_the_one_who_commits_it_and_the_next_is_told_what_was(
    tmp_path: Path,
) -> None:
    before, after, begun, stay = Diary(), Diary(), asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        begun.set()
        await stay.wait()
        return "worked"

    script: list[Line] = [call("work"), "done"]
    async with LocalRuntime(system_of(script, before, tools=[work]), tmp_path) as dead:
        thread = await dead.create_thread("clerk")
        await thread.invoke("go")
        await begun.wait()
        async with LocalRuntime(system_of(script, after, tools=[work]), tmp_path) as runtime:  # which takes the file
            stay.set()
            again = await runtime.thread(thread.id)
            assert (await again.wait(PATIENCE)).data == "done"
            written = await places(again)
        with pytest.raises(StaleActivation):
            await thread.wait(PATIENCE)

    assert before.of(thread) + after.of(thread) == written
    resumed = after.told[0]
    assert isinstance(resumed, Resumed)
    assert (resumed.thread, resumed.run) == (thread.metadata, 1)
    assert [one.type for one in resumed.turn] == [
        EventType.RUN_TICK,
        EventType.MODEL_STARTED,
        EventType.MODEL_COMPLETED,
        EventType.TOOL_STARTED,
    ]
    assert list(resumed.turn) == before.seen[-4:]
    assert next(one.at for one in before.seen if one.type is EventType.RUN_STARTED) >= resumed.began > 0
    assert after.told[1:] == [thread.id, "flush"]
    assert before.told == [thread.id, "flush"]


async def test_only_the_latest_turn_is_told_however_much_came_before_it_or_is_in_it(tmp_path: Path) -> None:
    begun = asyncio.Event()

    @tool
    async def wait_here() -> None:
        begun.set()
        await asyncio.Event().wait()

    many = [call("shout", word=str(n)) for n in range(PAGE)]
    script: list[Line] = [many, [*many, call("wait_here")], "never"]
    diary = Diary()
    system = system_of(script, diary, tools=[shout, wait_here])
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await begun.wait()
    past = list(diary.seen)
    async with LocalRuntime(system, tmp_path):
        resumed = next(told for told in diary.told if isinstance(told, Resumed))

    assert resumed.turn == tuple(past[-len(resumed.turn) :])
    assert (resumed.turn[0].type, resumed.turn[0].data) == (EventType.RUN_TICK, {"step": 2})
    assert len(resumed.turn) > 2 * PAGE


async def test_a_thread_without_a_run_in_progress_is_not_told_of_and_its_leaving_is(tmp_path: Path) -> None:
    diary = Diary()
    system = system_of(["done"], diary)
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(PATIENCE)
    async with LocalRuntime(system, tmp_path) as runtime:
        await runtime.thread(thread.id)
    assert diary.told == [thread.id, "flush", thread.id, "flush"]


async def test_a_run_that_is_ended_without_being_woken_is_seen_to_end(tmp_path: Path) -> None:
    diary, begun = Diary(), asyncio.Event()

    async def script(request: ModelRequest) -> Line:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    system = system_of(script, diary)
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await begun.wait()
    await park(tmp_path / f"{thread.id}.db", system, Poisoned("it kills"))

    assert (diary.seen[-1].type, diary.seen[-1].data["code"]) == (EventType.AGENT_ERROR, "ERR_POISON")
    assert [type(told).__name__ for told in diary.told] == ["str", "str", "Resumed", "str"]


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError(), SystemExit(3), GeneratorExit()])
async def test_what_an_observer_raises_changes_nothing_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    broken, recorder, begun = Broken(error), Recorder(), asyncio.Event()

    @tool
    async def wait_once() -> str:
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return "waited"

    system = system_of([call("wait_once"), "done"], broken, recorder, tools=[wait_once])
    with caplog.at_level(logging.ERROR, logger=observers.__name__):
        async with LocalRuntime(system, tmp_path) as runtime:
            thread = await runtime.create_thread("clerk")
            await thread.invoke("go")
            await begun.wait()
        async with LocalRuntime(system, tmp_path) as runtime:
            again = await runtime.thread(thread.id)
            assert (await again.wait(PATIENCE)).data == "done"
            assert recorder.of(thread) == await places(again)

    assert broken.calls == len(recorder.seen) + 5  # left and flush twice, resumed once
    assert [record.getMessage() for record in caplog.records] == ["the observer Broken has failed, 1 times by now"]
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[1] is error


async def test_once_it_was_quiet_for_a_while_a_failing_observer_is_logged_again_with_how_often_it_has_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observers, "QUIET_SECONDS", 0.0)
    broken = Broken(ValueError("no"))
    async with LocalRuntime(system_of(["done"], broken), tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(PATIENCE)

    assert broken.calls > 5
    assert [record.getMessage() for record in caplog.records] == [
        f"the observer Broken has failed, {n} times by now" for n in range(1, broken.calls + 1)
    ]


def test_ctrl_c_that_hits_an_observer_reaches_the_program_and_the_step_is_whole(tmp_path: Path) -> None:
    class Interrupted(Recorder):
        def observe(self, seen: Observation) -> None:
            super().observe(seen)
            if seen.type is EventType.TOOL_OUTPUT:
                raise KeyboardInterrupt

    first, second = Interrupted(), Recorder()

    async def work() -> None:
        async with LocalRuntime(system_of([call("shout", word="a"), "done"], first, second), tmp_path) as runtime:
            thread = await runtime.create_thread("clerk", thread_id="t1")
            await thread.invoke("go")
            await thread.wait(PATIENCE)

    async def go_on() -> None:
        async with LocalRuntime(system_of([call("shout", word="a"), "done"]), tmp_path) as runtime:
            thread = await runtime.thread("t1")
            assert (await thread.wait(PATIENCE)).data == "done"
            assert first.of(thread) == second.of(thread) == (await places(thread))[: len(second.seen)]

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(work())
    asyncio.run(go_on())


async def test_what_observers_are_given_they_cannot_change(tmp_path: Path) -> None:
    class Vandal(Recorder):
        def observe(self, seen: Observation) -> None:
            super().observe(seen)
            seen.data["spoilt"] = True  # type: ignore[index]  # which is the point

    vandal, recorder = Vandal(), Recorder()
    async with LocalRuntime(system_of(["done"], vandal, recorder), tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(PATIENCE)
    assert recorder.seen == vandal.seen
    assert not [one for one in recorder.seen if "spoilt" in one.data]


def test_an_observer_that_could_not_work_is_refused() -> None:
    class Async:
        async def observe(self, seen: Observation) -> None:
            raise AssertionError

    class AsyncFlush(Recorder):
        async def flush(self) -> None:
            raise AssertionError

    with pytest.raises(DefinitionError, match=r"Async\.observe is async"):
        system_of([], Async())  # type: ignore[arg-type]  # which is the point
    with pytest.raises(DefinitionError, match=r"AsyncFlush\.flush is async"):
        system_of([], AsyncFlush())
    with pytest.raises(DefinitionError, match="an object with a method `observe`"):
        system_of([], print)  # type: ignore[arg-type]  # which is the point
