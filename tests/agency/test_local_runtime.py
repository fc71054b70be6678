"""The threads of one folder: what is wrong with one of them is nobody else's trouble, and what has ended is closed."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agency import (
    AgentSystem,
    Deferred,
    HookContext,
    LocalRuntime,
    Middleware,
    ModelRequest,
    NewerStore,
    NotAThreadStore,
    NotFound,
    StaleActivation,
    Thread,
    Tool,
    ToolCall,
    ToolContext,
    WrongState,
    open_thread,
    tool,
)
from agency.children.parcels import AnyParcel, Cancel, Report, Spawn
from agency.metadata import ParentInfo, RequestContext
from agency.testing import Line, ScriptedModel, call
from middleware import subagents
from tests.support.waiting import turns_of_the_loop

Build = Callable[..., tuple[LocalRuntime, ScriptedModel]]
Part = list[Line] | Callable[[ModelRequest], Line | Awaitable[Line]]
PATIENCE = 10.0


def family(
    parts: dict[str, Part], *tools: Tool, middleware: Middleware[Any] | None = None, **status: Any
) -> AgentSystem:
    """A system of agents that play their parts and may start each other; `middleware` is the one of the tag `extra`."""

    async def script(request: ModelRequest) -> Line:
        part = parts[request.system.split()[0]]
        if isinstance(part, list):
            return part[sum(message.role == "assistant" for message in request.messages)]
        line = part(request)
        return await line if isinstance(line, Awaitable) else line

    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)})
    system.use(subagents, tags=["default"])
    if middleware is not None:
        system.use(middleware, tags=["extra"])
    for each in tools:
        system.add_tool(each)
    for name in parts:
        tags = ["default", "extra"] if name == "unlucky" and middleware is not None else ["default"]
        system.add_agent(
            name=name, description=f"Is {name}.", prompt=name, tags=tags, status=status.get(name, "active")
        )
    return system


def task(to: str, call_id: str, description: str = "work") -> ToolCall:
    return call("task", call_id=call_id, description=description, subagentType=to)


async def results(thread: Thread) -> dict[str | None, str]:
    messages = (await thread.state()).messages
    return {message.tool_call_id: message.content for message in messages if message.role == "tool"}


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # only the number matters


async def hang(request: ModelRequest) -> Line:
    await asyncio.Event().wait()
    return "never"


# One bad file.


async def test_a_file_that_cannot_be_opened_does_not_keep_the_others_from_working(
    build: Build, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime, _ = build(hang)
    async with runtime:
        for name in ("a-newer", "b-good"):  # in the order of waking
            thread = await runtime.create_thread("clerk", thread_id=name)
            await thread.invoke("go")
    with closing(sqlite3.connect(tmp_path / "threads" / "a-newer.db")) as db:
        db.execute("PRAGMA user_version = 99")
    (tmp_path / "threads" / "c-junk.db").write_bytes(b"no database at all " * 500)
    runtime, _ = build(["done"])
    with caplog.at_level(logging.WARNING, logger="agency.local"):
        async with runtime:
            assert [record.args[0] for record in caplog.records if isinstance(record.args, tuple)] == ["a-newer"]
            good = await runtime.thread("b-good")
            assert (await good.wait(PATIENCE)).data == "done"
            with pytest.raises(NewerStore):
                await runtime.thread("a-newer")
            with pytest.raises(NotAThreadStore):
                await runtime.thread("c-junk")
            with pytest.raises(NotFound):
                await runtime.thread("nobody")
            assert runtime.thread_ids() == ["a-newer", "b-good"]


# What is open.


async def test_subagents_that_have_ended_hold_no_files_open(tmp_path: Path) -> None:
    count, seen = 30, list[int]()

    def boss(request: ModelRequest) -> Line:
        done = sum(message.role == "assistant" for message in request.messages)
        return task("worker", f"t{done}") if done < count else "all done"

    def worker(request: ModelRequest) -> Line:
        seen.append(open_files())
        return "done"

    async with open_thread(family({"boss": boss, "worker": worker}), tmp_path / "boss.db", agent="boss") as thread:
        await thread.invoke("go")
        assert (await thread.wait(3 * PATIENCE)).data == "all done"
    assert len(seen) == count
    assert max(seen) - min(seen) < count  # a thread that is open has three


async def test_a_thread_that_was_asked_for_stays_open_when_its_run_has_ended(tmp_path: Path) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def worker(request: ModelRequest) -> Line:
        asked.set()
        await go_on.wait()
        return "done"

    system = family({"boss": [task("worker", "t"), "thanks"], "worker": worker})
    async with LocalRuntime(system, tmp_path) as runtime, asyncio.timeout(PATIENCE):
        boss = await runtime.create_thread("boss", thread_id="boss")
        await boss.invoke("go")
        await asked.wait()
        (child_id,) = set(runtime.thread_ids()) - {"boss"}
        child = await runtime.thread(child_id)
        go_on.set()
        assert (await boss.wait()).data == "thanks"
        await turns_of_the_loop(50)
        for thread in (boss, child):
            assert thread.alive
            assert await runtime.thread(thread.id) is thread
            assert thread.run().status == "completed"


async def test_an_activation_that_somebody_overtook_is_replaced_when_the_thread_is_asked_for_again(
    build: Build,
) -> None:
    first, _ = build(["one", "two"])
    second, _ = build(["one", "two"])
    async with first:
        overtaken = await first.create_thread("clerk")
        async with second:
            other = await second.thread(overtaken.id)
            await other.invoke("a")
            assert (await other.wait(PATIENCE)).data == "one"
            with pytest.raises(StaleActivation):
                await overtaken.invoke("b")
        assert not overtaken.alive
        thread = await first.thread(overtaken.id)
        assert thread is not overtaken
        await thread.invoke("c")
        assert (await thread.wait(PATIENCE)).data == "two"
        assert [m.content for m in (await thread.state()).messages if m.role == "user"] == ["a", "c"]


async def test_a_thread_that_was_closed_by_hand_is_opened_anew_when_it_is_asked_for(build: Build) -> None:
    runtime, _ = build(["one"])
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.close()
        again = await runtime.thread(thread.id)
        await again.invoke("go")
        assert (await again.wait(PATIENCE)).data == "one"


async def test_a_closed_runtime_opens_nothing_until_it_is_entered_again(build: Build, tmp_path: Path) -> None:
    runtime, _ = build(["one"])
    async with runtime:
        thread = await runtime.create_thread("clerk", thread_id="known")
    with pytest.raises(WrongState, match="is closed"):
        await runtime.thread("known")
    with pytest.raises(WrongState, match="is closed"):
        await runtime.create_thread("clerk", thread_id="new")
    order = Spawn(
        to="child",
        agent_type="clerk",
        message="work",
        agency_id="",
        request=RequestContext(),
        parent=ParentInfo(thread_id="known", token="1.2.c"),
    )
    report = Report(to="known", thread_id="child", token="1.2.c", status="completed", report="done")
    for parcel in (order, report, Cancel(to="known")):
        with pytest.raises(WrongState, match="is closed"):
            await runtime.deliver(parcel)
    assert [path.name for path in (tmp_path / "threads").iterdir()] == ["known.db"]
    async with runtime:
        thread = await runtime.thread("known")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).data == "one"


async def test_the_children_of_a_thread_in_a_file_of_its_own_are_in_the_folder_beside_it(tmp_path: Path) -> None:
    system = family({"boss": [task("worker", "t"), "thanks"], "worker": ["done"]})
    path = tmp_path / "somewhere" / "boss.db"
    async with open_thread(system, path, agent="boss") as thread:
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).data == "thanks"
    assert sorted(child.name for child in path.parent.iterdir()) == ["boss.db", "boss.db.threads"]
    (child,) = (path.parent / "boss.db.threads").glob("*.db")
    async with open_thread(system, child) as thread:
        assert (thread.metadata.agent_type, thread.run().data) == ("worker", "done")


# Mail that cannot be delivered.


class Unlucky(Middleware[None]):
    name = "unlucky"

    async def on_init(self, ctx: HookContext[None]) -> None:
        raise ValueError("no database is configured")


@tool(safe=True)
async def delegate(to: str, ctx: ToolContext) -> Deferred:
    return ctx.spawn(to, "work")


async def test_a_child_with_nothing_to_do_is_refused_and_its_sibling_works(tmp_path: Path) -> None:
    calls = [task("worker", "blank", description=" \n"), task("worker", "good")]
    system = family({"boss": [calls, "thanks"], "worker": ["done"]})
    async with LocalRuntime(system, tmp_path) as runtime:
        boss = await runtime.create_thread("boss")
        await boss.invoke("go")
        assert (await boss.wait(PATIENCE)).data == "thanks"
        told = await results(boss)
        assert told["blank"].startswith("Error: invalid_request: a child's message has 1 to ")
        assert told["good"] == "done"
        assert len(runtime.thread_ids()) == 2


@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("unlucky", "middleware 'unlucky' failed in on_init: ValueError: no database is configured"),
        ("retired", "agent 'retired' is disabled"),
        ("ghost", "there is no agent 'ghost'"),
    ],
)
async def test_a_child_that_cannot_start_has_failed_and_other_mail_is_delivered(
    tmp_path: Path, to: str, why: str
) -> None:
    calls = [call("delegate", call_id="bad", to=to), call("delegate", call_id="good", to="worker")]
    parts: dict[str, Part] = {"boss": [calls, "thanks"], "worker": ["done"], "unlucky": [], "retired": []}
    system = family(parts, delegate, middleware=Unlucky(), retired="disabled")
    async with LocalRuntime(system, tmp_path) as runtime:
        boss = await runtime.create_thread("boss", thread_id="boss")
        await boss.invoke("go")
        assert (await boss.wait(PATIENCE)).data == "thanks"
        told = await results(boss)
        assert told["bad"].startswith(f"Error: external: the subagent failed: {why}")
        assert told["good"] == "done"
        links: Any = (await boss.state()).more["subagents"]
        assert sorted(link["status"] for link in links) == ["completed", "failed"]
        await boss.rest()  # nothing is left to deliver
    async with LocalRuntime(system, tmp_path) as runtime:
        assert (await runtime.thread("boss")).run().data == "thanks"


async def test_an_agent_that_was_disabled_before_its_order_arrived_has_failed(tmp_path: Path) -> None:
    class Deaf(LocalRuntime):
        """Delivers nothing, so that orders stay where they are."""

        async def deliver(self, parcel: AnyParcel) -> None:
            ordered.set()
            await asyncio.Event().wait()

    ordered = asyncio.Event()
    parts: dict[str, Part] = {"boss": [task("worker", "t"), "so be it"], "worker": ["done"]}
    async with Deaf(family(parts), tmp_path) as deaf, asyncio.timeout(PATIENCE):
        boss = await deaf.create_thread("boss", thread_id="boss")
        await boss.invoke("go")
        await ordered.wait()
    async with LocalRuntime(family(parts, worker="disabled"), tmp_path) as runtime:
        boss = await runtime.thread("boss")
        assert (await boss.wait(PATIENCE)).data == "so be it"
        told = (await results(boss))["t"]
        assert told.startswith("Error: external: the subagent failed: agent 'worker' is disabled")
        assert runtime.thread_ids() == ["boss"]


async def test_a_cancel_to_a_child_that_was_never_made_counts_as_delivered(tmp_path: Path) -> None:
    system = family({"boss": ["hello"]})
    async with LocalRuntime(system, tmp_path) as runtime, asyncio.timeout(PATIENCE):
        await runtime.deliver(Cancel(to="thr_never"))
        assert list(tmp_path.iterdir()) == []


async def test_canceling_a_run_whose_child_can_never_start_leaves_nothing_to_deliver(tmp_path: Path) -> None:
    class Full(LocalRuntime):
        """Can make no new threads."""

        async def deliver(self, parcel: AnyParcel) -> None:
            if isinstance(parcel, Spawn):
                ordered.set()
                await asyncio.Event().wait()
            await super().deliver(parcel)

    ordered = asyncio.Event()
    parts: dict[str, Part] = {"boss": [call("delegate", call_id="d", to="ghost"), "never"]}
    async with Full(family(parts, delegate), tmp_path) as full, asyncio.timeout(PATIENCE):
        boss = await full.create_thread("boss", thread_id="boss")
        await boss.invoke("go")
        await ordered.wait()
        await boss.cancel()
    async with LocalRuntime(family(parts, delegate), tmp_path) as runtime, asyncio.timeout(PATIENCE):
        boss = await runtime.thread("boss")
        await boss.rest()
        assert boss.run().status == "canceled"
        assert runtime.thread_ids() == ["boss"]
