"""Agents in the background: their parents go on, hear when they end, can wait for them and call them back.

However a parent ends, none of its family is left at work that nobody has a use for.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agency import (
    AgentSystem,
    EventType,
    LocalRuntime,
    ModelError,
    ModelRequest,
    Price,
    Thread,
    ToolCall,
    ToolContext,
    WrongState,
    tool,
)
from agency.children.parcels import AnyParcel, Note, Report
from agency.store.peek import glance
from agency.testing import Line, ScriptedModel, call
from agency.thread.driver import Driver
from middleware import filesystem, subagents
from tests.support.families import (
    HANGS,
    FamilyRuntime,
    Hang,
    Part,
    answer_of,
    cast,
    links,
    next_event,
    results,
    start,
    task,
)
from tests.support.thread_files import table
from tests.support.waiting import eventually

PATIENCE = 10.0
STARTED = re.compile(r"Started task (thr_\w+) in the background")


def background(to: str = "worker", call_id: str = "bg", **more: Any) -> ToolCall:
    return task(to, call_id, background=True, **more)


def tasks_of(request: ModelRequest) -> list[str]:
    """The tasks in the background that a conversation knows of."""
    return [found for message in request.messages for found in STARTED.findall(message.content)]


def last(request: ModelRequest) -> str:
    return request.messages[-1].content


def replies(request: ModelRequest) -> int:
    return sum(message.role == "assistant" for message in request.messages)


async def notes(thread: Thread) -> list[str]:
    return [message.content for message in (await thread.state()).messages if message.origin == "task"]


async def heard_of_end(thread: Thread) -> None:
    """Wait until a child's end was told to the model, in this run or in the next."""

    async def heard() -> bool:
        return bool(await notes(thread)) and thread.run_state().status != "running"

    await eventually(heard)


async def statuses(thread: Thread) -> list[str]:
    return [link["status"] for link in await links(thread)]


class Gate:
    """Something that a child waits for in its model call."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, request: ModelRequest) -> Line:
        self.reached.set()
        await self.open.wait()
        return f"did: {request.messages[0].content}"


# Notes.


async def test_the_parent_goes_on_at_once_and_a_note_joins_its_run_when_the_child_has_ended(tmp_path: Path) -> None:
    gate, heard = Gate(), asyncio.Event()

    @tool
    async def listen() -> str:
        await heard.wait()
        return "listened"

    parts: dict[str, Part] = {"boss": [background(), call("listen", call_id="li"), "thanks"], "worker": gate}
    async with FamilyRuntime(cast(parts, listen), tmp_path) as runtime, asyncio.timeout(PATIENCE):
        boss = await start(runtime)
        await next_event(boss, EventType.TOOL_STARTED, 2)
        gate.open.set()
        await next_event(boss, EventType.SUBAGENT_COMPLETED)
        heard.set()
        assert await answer_of(boss) == "thanks"
        (link,) = await links(boss)
        assert (link["status"], link["background"], link["report"]) == ("completed", True, "did: work for bg")
        said = f"The background task {link['childThreadId']} (worker) has ended: completed.\n\ndid: work for bg"
        assert await notes(boss) == [said]
        found = await results(boss)
        assert found == {"bg": f"Started task {link['childThreadId']} in the background.", "li": "listened"}
        spawned = [e async for e in boss.events(follow=False) if e.type == EventType.SUBAGENT_SPAWNED]
        assert spawned[0].data["background"] is True
        assert boss.run_state().run_id == "boss.1"


async def test_a_note_that_comes_to_an_idle_thread_starts_a_run(tmp_path: Path) -> None:
    gate = Gate()
    boss_says: list[Line] = [background(), "it is under way", "now it is done"]
    async with FamilyRuntime(cast({"boss": boss_says, "worker": gate}), tmp_path) as runtime, asyncio.timeout(PATIENCE):
        boss = await start(runtime)
        assert await answer_of(boss) == "it is under way"
        assert await statuses(boss) == ["waiting"]
        gate.open.set()
        await next_event(boss, EventType.AGENT_COMPLETED, 2)
        assert (boss.run().run_id, boss.run().data) == ("boss.2", "now it is done")
        assert len(await notes(boss)) == 1


async def test_an_idle_thread_hears_of_its_children_after_everything_was_closed(tmp_path: Path) -> None:
    gate = Gate()
    boss_says: list[Line] = [background(), "it is under way", "now it is done"]
    async with FamilyRuntime(cast({"boss": boss_says, "worker": gate}), tmp_path) as runtime, asyncio.timeout(PATIENCE):
        assert await answer_of(await start(runtime)) == "it is under way"
        await gate.reached.wait()
    async with (
        FamilyRuntime(cast({"boss": boss_says, "worker": ["late"]}), tmp_path) as runtime,
        asyncio.timeout(PATIENCE),
    ):
        boss = await runtime.thread("boss")
        await next_event(boss, EventType.AGENT_COMPLETED, 2)
        assert boss.run().data == "now it is done"
        assert [note.splitlines()[-1] for note in await notes(boss)] == ["late"]


@pytest.mark.parametrize("end", ["fails", "times out", "is canceled"])
async def test_a_child_that_does_not_succeed_is_told_of_like_one_that_does(end: str, tmp_path: Path) -> None:
    hang = Hang()
    worker: Part = [ModelError("no key", model_code="ERR_AUTH")] if end == "fails" else HANGS
    order = background(timeoutMs=30) if end == "times out" else background()
    parts: dict[str, Part] = {"boss": [order, "under way", "I see"], "worker": worker}
    async with FamilyRuntime(cast(parts, hang.tool), tmp_path) as runtime, asyncio.timeout(PATIENCE):
        boss = await start(runtime)
        if end == "is canceled":
            child = await runtime.child_of(boss)
            await hang.started.wait()
            await child.cancel()
        await heard_of_end(boss)
        told = {"fails": "failed", "times out": "timed_out", "is canceled": "canceled"}[end]
        assert await statuses(boss) == [told]
        (note,) = await notes(boss)
        assert f"has ended: {told}." in note
        assert table(tmp_path / "boss.db", "timers") == []


async def test_a_report_that_comes_twice_is_told_of_once(tmp_path: Path) -> None:
    async with FamilyRuntime(
        cast({"boss": [background(), "one", "two", "three"], "worker": ["done"]}), tmp_path
    ) as runtime:
        boss = await start(runtime)
        await next_event(boss, EventType.SUBAGENT_COMPLETED)
        assert await notes(boss) or boss.run_state().status == "running", "it is heard of without delay"
        await boss.wait(PATIENCE)
        (link,) = await links(boss)
        before = boss.run().run_id
        again = Report(to="boss", thread_id=link["childThreadId"], token=link["token"], status="failed", report="no")
        await runtime.deliver(again)
        await boss.wait(PATIENCE)
        assert (len(await notes(boss)), boss.run().run_id, await statuses(boss)) == (1, before, ["completed"])


# Looking and waiting.


async def test_check_tasks_tells_what_has_come_of_each(tmp_path: Path) -> None:
    gate = Gate()

    async def worker(request: ModelRequest) -> Line:
        return await gate(request) if "slow" in last(request) else "quick"

    heard = asyncio.Event()

    @tool
    async def listen() -> str:
        await heard.wait()
        return "listened"

    boss_says: list[Line] = [
        [background(call_id="quick"), background(call_id="slow"), call("listen", call_id="li")],
        call("check_tasks", call_id="check"),
        "thanks",
    ]
    async with FamilyRuntime(cast({"boss": boss_says, "worker": worker}, listen), tmp_path) as runtime:
        boss = await start(runtime)
        await next_event(boss, EventType.SUBAGENT_COMPLETED)
        heard.set()
        assert await answer_of(boss) == "thanks"
        first, second = json.loads((await results(boss))["check"])
        assert (first["status"], first["report"], first["agent"]) == ("completed", "quick", "worker")
        assert (second["status"], "report" in second) == ("running", False)


async def test_waiting_for_tasks_that_are_at_work_gives_their_reports_and_no_notes(tmp_path: Path) -> None:
    gate = Gate()

    def boss_says(request: ModelRequest) -> Line:
        lines: list[Line] = [
            [background(call_id="a"), background(call_id="b")],
            call("wait_for_tasks", call_id="wait"),
            "thanks",
        ]
        return lines[replies(request)]

    async with FamilyRuntime(cast({"boss": boss_says, "worker": gate}), tmp_path) as runtime, asyncio.timeout(PATIENCE):
        boss = await start(runtime)
        paused = await next_event(boss, EventType.RUN_PAUSED)
        assert paused.data["reason"] == "subagent"
        gate.open.set()
        assert await answer_of(boss) == "thanks"
        told = json.loads((await results(boss))["wait"])
        assert [(each["status"], each["report"]) for each in told] == [
            ("completed", "did: work for a"),
            ("completed", "did: work for b"),
        ]
        assert (await notes(boss), table(tmp_path / "boss.db", "waits")) == ([], [])


async def test_waiting_for_one_of_two_tells_of_the_other_by_a_note(tmp_path: Path) -> None:
    gate = Gate()

    async def worker(request: ModelRequest) -> Line:
        return await gate(request) if "slow" in last(request) else "quick"

    def boss_says(request: ModelRequest) -> Line:
        if replies(request) == 0:
            return [background(call_id="quick"), background(call_id="slow")]
        if replies(request) == 1:
            return call("wait_for_tasks", tasks=[*tasks_of(request)[1:]], call_id="wait")
        return "thanks"

    async with (
        FamilyRuntime(cast({"boss": boss_says, "worker": worker}), tmp_path) as runtime,
        asyncio.timeout(PATIENCE),
    ):
        boss = await start(runtime)
        await next_event(boss, EventType.SUBAGENT_COMPLETED)
        gate.open.set()
        await next_event(boss, EventType.SUBAGENT_COMPLETED, 2)
        await boss.wait(PATIENCE)
        assert [each["report"] for each in json.loads((await results(boss))["wait"])] == ["did: work for slow"]
        assert [note.splitlines()[-1] for note in await notes(boss)] == ["quick"]


async def test_waiting_for_tasks_that_have_all_ended_gives_their_reports_at_once(tmp_path: Path) -> None:
    heard = asyncio.Event()

    @tool
    async def listen() -> str:
        await heard.wait()
        return "listened"

    def boss_says(request: ModelRequest) -> Line:
        lines: list[Callable[[], Line]] = [
            lambda: [background(call_id="a"), call("listen", call_id="li")],
            lambda: call("wait_for_tasks", tasks=[*tasks_of(request)], call_id="named"),
            lambda: call("wait_for_tasks", call_id="all"),
            lambda: "thanks",
        ]
        return lines[replies(request)]()

    async with FamilyRuntime(cast({"boss": boss_says, "worker": ["done"]}, listen), tmp_path) as runtime:
        boss = await start(runtime)
        await next_event(boss, EventType.SUBAGENT_COMPLETED)
        heard.set()
        assert await answer_of(boss) == "thanks"
        found = await results(boss)
        assert json.loads(found["named"])[0]["report"] == "done"
        assert found["all"] == "No task is at work."
        assert table(tmp_path / "boss.db", "waits") == []


async def test_a_wait_that_takes_too_long_tells_what_there_is_and_the_tasks_work_on(tmp_path: Path) -> None:
    gate = Gate()

    async def worker(request: ModelRequest) -> Line:
        return await gate(request) if "slow" in last(request) else "quick"

    lines: list[Line] = [
        [background(call_id="quick"), background(call_id="slow")],
        call("wait_for_tasks", timeoutMs=200, call_id="wait"),
        "not yet",
        "now",
    ]
    async with FamilyRuntime(cast({"boss": lines, "worker": worker}), tmp_path) as runtime, asyncio.timeout(PATIENCE):
        boss = await start(runtime)
        assert await answer_of(boss) == "not yet"
        told = json.loads((await results(boss))["wait"])
        assert [each["status"] for each in told] in (["completed", "running"], ["running"])
        gate.open.set()
        await next_event(boss, EventType.AGENT_COMPLETED, 2)
        assert await statuses(boss) == ["completed", "completed"]
        assert (table(tmp_path / "boss.db", "timers"), table(tmp_path / "boss.db", "waits")) == ([], [])


async def test_a_message_that_interrupts_a_wait_loses_nothing_that_has_come(tmp_path: Path) -> None:
    gate = Gate()

    async def worker(request: ModelRequest) -> Line:
        return await gate(request) if "slow" in last(request) else "quick"

    def boss_says(request: ModelRequest) -> Line:
        if replies(request) == 0:
            return [background(call_id="quick"), background(call_id="slow")]
        return call("wait_for_tasks", tasks=[*tasks_of(request)], call_id="wait") if replies(request) == 1 else "I see"

    hold = asyncio.Event()

    async def held(request: ModelRequest) -> Line:
        await hold.wait()
        return await worker(request)

    async with FamilyRuntime(cast({"boss": boss_says, "worker": held}), tmp_path) as runtime, asyncio.timeout(PATIENCE):
        boss = await start(runtime)
        await next_event(boss, EventType.RUN_PAUSED)
        hold.set()
        await next_event(boss, EventType.SUBAGENT_COMPLETED)
        await boss.invoke("how is it going?", when="now")
        assert await answer_of(boss) == "I see"
        told = json.loads((await results(boss))["wait"])
        assert [each["status"] for each in told] == ["completed", "running"]
        assert told[0]["report"] == "quick"
        assert table(tmp_path / "boss.db", "waits") == []
        gate.open.set()
        await next_event(boss, EventType.AGENT_COMPLETED, 2)
        assert [note.splitlines()[-1] for note in await notes(boss)] == ["did: work for slow"]


async def test_a_wait_whose_tasks_have_ended_is_taken_up_though_nobody_asks_for_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process died when the last report was on disk and the call that waits for it had not been told."""
    parts: dict[str, Part] = {"boss": [background(), call("wait_for_tasks", call_id="wait"), "thanks"]}
    gate = Gate()
    with monkeypatch.context() as patched:
        patched.setattr(Driver, "_children_changed", lambda self: None)
        async with FamilyRuntime(cast({**parts, "worker": gate}), tmp_path) as runtime, asyncio.timeout(PATIENCE):
            boss = await start(runtime)
            await next_event(boss, EventType.RUN_PAUSED)
            gate.open.set()
            await next_event(boss, EventType.SUBAGENT_COMPLETED)
            await (await runtime.child_of(boss)).rest()
    assert glance(tmp_path / "boss.db").due == 0
    async with FamilyRuntime(cast({**parts, "worker": []}), tmp_path), asyncio.timeout(PATIENCE):
        await eventually(lambda: glance(tmp_path / "boss.db").status == "completed")


@pytest.mark.parametrize("name", ["wait_for_tasks", "cancel_task"])
async def test_a_task_that_is_not_ones_own_cannot_be_waited_for_nor_canceled(name: str, tmp_path: Path) -> None:
    wrong: dict[str, Any] = {"tasks": ["thr_of_somebody"]} if name == "wait_for_tasks" else {"task": "thr_of_somebody"}
    parts: dict[str, Part] = {"boss": [ToolCall(id="c", name=name, args={**wrong}), "my mistake"], "worker": []}
    async with FamilyRuntime(cast(parts), tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "my mistake"
        refusal = "Error: invalid_request: there is no background task 'thr_of_somebody'; there are: none"
        assert await results(boss) == {"c": refusal}


# Calling back.


async def test_cancel_task_stops_the_child_and_its_own_children_without_a_note(tmp_path: Path) -> None:
    hang = Hang()

    def boss_says(request: ModelRequest) -> Line:
        lines: list[Callable[[], Line]] = [
            lambda: [background("lead"), call("ready", call_id="ready")],
            lambda: call("cancel_task", task=tasks_of(request)[0], call_id="cancel"),
            lambda: "it is off",
        ]
        return lines[replies(request)]()

    @tool
    async def ready() -> str:
        await hang.started.wait()
        return "ready"

    parts: dict[str, Part] = {"boss": boss_says, "lead": [task("worker")], "worker": HANGS}
    async with FamilyRuntime(cast(parts, hang.tool, ready), tmp_path) as runtime, asyncio.timeout(PATIENCE):
        boss = await start(runtime)
        assert await answer_of(boss) == "it is off"
        await hang.stopped.wait()
        lead = await runtime.child_of(boss)
        assert (await lead.wait()).status == "canceled"
        assert (await statuses(boss), await statuses(lead), await notes(boss)) == (["canceled"], ["canceled"], [])
        await boss.rest()
        assert boss.run().run_id == "boss.1"


async def test_a_task_that_is_canceled_while_it_is_waited_for_ends_the_wait(tmp_path: Path) -> None:
    hang = Hang()
    lines: list[Line] = [background(), call("wait_for_tasks", call_id="wait"), "I see"]
    async with FamilyRuntime(cast({"boss": lines, "worker": HANGS}, hang.tool), tmp_path) as runtime:
        boss = await start(runtime)
        await hang.started.wait()
        await (await runtime.child_of(boss)).cancel()
        assert await answer_of(boss) == "I see"
        assert json.loads((await results(boss))["wait"])[0]["status"] == "canceled"


@pytest.mark.parametrize("end", ["canceled", "failed"])
async def test_a_parent_that_is_canceled_or_fails_leaves_nobody_at_work(end: str, tmp_path: Path) -> None:
    hang, go = Hang(), asyncio.Event()

    async def boss_says(request: ModelRequest) -> Line:
        if replies(request) == 0:
            return background("lead")
        await hang.started.wait()
        if end == "failed":
            return ModelError("no key", model_code="ERR_AUTH")
        await go.wait()
        return "never"

    parts: dict[str, Part] = {"boss": boss_says, "lead": [background("worker"), HANGS[0]], "worker": HANGS}
    async with FamilyRuntime(cast(parts, hang.tool), tmp_path) as runtime, asyncio.timeout(PATIENCE):
        boss = await start(runtime)
        lead = await runtime.child_of(boss)
        worker = await runtime.child_of(lead)
        await hang.started.wait()
        if end == "canceled":
            await boss.cancel()
        await boss.wait()
        for thread in (lead, worker):
            await next_event(thread, EventType.RUN_CANCELED)
        assert boss.run_state().status == ("canceled" if end == "canceled" else "error")
        assert (await statuses(boss), await statuses(lead)) == (["canceled"], ["canceled"])
        assert await notes(boss) == []


async def test_a_top_level_thread_that_completes_keeps_its_children_and_canceling_it_calls_them_back(
    tmp_path: Path,
) -> None:
    hang = Hang()
    parts: dict[str, Part] = {"boss": [background(), "under way", "never"], "worker": HANGS}
    async with FamilyRuntime(cast(parts, hang.tool), tmp_path) as runtime, asyncio.timeout(PATIENCE):
        boss = await start(runtime)
        assert await answer_of(boss) == "under way"
        await hang.started.wait()
        assert await statuses(boss) == ["waiting"]
        await boss.cancel()
        await hang.stopped.wait()
        assert (await statuses(boss), boss.run_state().status) == (["canceled"], "completed")
        with pytest.raises(WrongState):
            await boss.cancel()
        await boss.rest()
        assert (await notes(boss), boss.run().run_id) == ([], "boss.1")


async def test_a_child_that_completes_calls_back_its_own_and_its_parent_hears_its_report(tmp_path: Path) -> None:
    hang = Hang()

    async def lead(request: ModelRequest) -> Line:
        if replies(request) == 0:
            return background("worker")
        await hang.started.wait()
        return "as far as I got"

    parts: dict[str, Part] = {"boss": [task("lead"), "thanks"], "lead": lead, "worker": HANGS}
    async with FamilyRuntime(cast(parts, hang.tool), tmp_path) as runtime, asyncio.timeout(PATIENCE):
        boss = await start(runtime)
        assert await answer_of(boss) == "thanks"
        await hang.stopped.wait()
        child = await runtime.child_of(boss)
        assert (await statuses(child), child.run_state().status) == (["canceled"], "completed")
        await child.rest()
        assert child.run().run_id == f"{child.id}.1"  # nothing starts it again


async def test_children_of_children_in_the_background_report_all_the_way_up(tmp_path: Path) -> None:
    parts: dict[str, Part] = {
        "boss": [background("lead"), "under way", "all is done"],
        "lead": [background("worker"), call("wait_for_tasks", call_id="wait"), "my worker is done"],
        "worker": ["done"],
    }
    async with FamilyRuntime(cast(parts), tmp_path) as runtime, asyncio.timeout(PATIENCE):
        boss = await start(runtime)
        await heard_of_end(boss)
        assert boss.run().data == "all is done"
        assert [note.splitlines()[-1] for note in await notes(boss)] == ["my worker is done"]


# Limits.


async def test_a_family_is_only_so_deep(tmp_path: Path) -> None:
    config = {name: {"subagents": {"maxDepth": 1}} for name in ("boss", "lead")}
    parts: dict[str, Part] = {"boss": [task("lead"), "ok"], "lead": [task("worker"), "alone then"], "worker": ["done"]}
    async with FamilyRuntime(cast(parts, config=config), tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "ok"
        lead = await runtime.child_of(boss)
        (refusal,) = (await results(lead)).values()
        assert refusal.startswith("Error: resource_limit: agents may start agents 1 deep")
        assert len(runtime.thread_ids()) == 2


@pytest.mark.parametrize("limits", [{}, {"limits": {"time_ms": 60_000}}], ids=["unhurried", "within a time limit"])
async def test_only_so_many_children_are_at_work_at_once_however_they_are_started(
    limits: dict[str, Any], tmp_path: Path
) -> None:
    hang = Hang()
    starts = [background(call_id=name) for name in "abcd"]
    system = cast(
        {"boss": [starts, "that is all"], "worker": HANGS}, hang.tool, config={"boss": {"subagents": {"maxRunning": 2}}}
    )
    if limits:
        limited = system.agents["boss"].model_copy(
            update={"limits": system.agents["boss"].limits.model_copy(update=limits["limits"])}
        )
        system._agents["boss"] = limited
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "that is all"
        refused = [text for text in (await results(boss)).values() if text.startswith("Error: resource_limit")]
        assert (len(refused), await statuses(boss)) == (2, ["waiting"] * 2)
        await boss.cancel()


# Files.


def filing(parts: dict[str, Part]) -> AgentSystem:
    """Like `cast`, with files."""

    async def script(request: ModelRequest) -> Line:
        part = parts[request.system.split()[0]]
        if callable(part):
            line = part(request)
            return await line if asyncio.iscoroutine(line) else line  # type: ignore[return-value]
        return part[replies(request)]

    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)})
    system.use(subagents, tags=["default"]).use(filesystem, tags=["files"])
    for name in parts:
        tags = ["default"] if name == "bare" else ["default", "files"]
        system.add_agent(name=name, description="", prompt=name, tags=tags)
    return system


def write(path: str, content: str, call_id: str = "w") -> ToolCall:
    return call("write_file", path=path, content=content, call_id=call_id)


async def files(thread: Thread) -> dict[str, str]:
    found: Any = (await thread.state()).more["files"]
    return dict(found)


@pytest.mark.parametrize("way", ["waiting", "in the background"])
async def test_files_are_handed_down_and_back(way: str, tmp_path: Path) -> None:
    order: dict[str, Any] = {"files": ["/brief.md"], "returnFiles": ["/result.md", "/brief.md", "/missing.md"]}
    if way == "in the background":
        order["background"] = True
    lines: list[Line] = [write("/brief.md", "the brief"), task("worker", **order), "under way", "thanks"]
    worker: list[Line] = [
        [call("read_file", path="/brief.md", call_id="r"), write("/result.md", "the result")],
        write("/own.md", "mine", "o"),
        "done",
    ]
    async with FamilyRuntime(filing({"boss": lines, "worker": worker}), tmp_path) as runtime, asyncio.timeout(PATIENCE):
        boss = await start(runtime)
        await next_event(boss, EventType.SUBAGENT_COMPLETED)
        await boss.wait(PATIENCE)
        assert await files(boss) == {"/brief.md": "the brief", "/result.md": "the result"}
        child = await runtime.child_of(boss)
        assert await files(child) == {"/brief.md": "the brief", "/own.md": "mine", "/result.md": "the result"}
        (link,) = await links(boss)
        assert link["report"] == "done\n\n(Files handed back: /result.md, /brief.md)"


async def test_a_report_that_comes_again_or_too_late_does_not_touch_the_files(tmp_path: Path) -> None:
    lines: list[Line] = [task("worker", returnFiles=["/r.md"]), write("/r.md", "my own by now"), "thanks"]
    parts: dict[str, Part] = {"boss": lines, "worker": [write("/r.md", "theirs"), "done"]}
    async with FamilyRuntime(filing(parts), tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "thanks"
        (link,) = await links(boss)
        again = Report(
            to="boss",
            thread_id=link["childThreadId"],
            token=link["token"],
            status="completed",
            report="done",
            files={"/r.md": "theirs"},
        )
        await runtime.deliver(again)
        assert await files(boss) == {"/r.md": "my own by now"}


async def test_a_file_that_is_not_there_cannot_be_handed_down(tmp_path: Path) -> None:
    parts: dict[str, Part] = {"boss": [task("worker", files=["/nothing.md"]), "my mistake"], "worker": []}
    async with FamilyRuntime(filing(parts), tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "my mistake"
        refusal = "Error: invalid_request: you have no text file '/nothing.md' to hand down"
        assert (await results(boss), runtime.thread_ids()) == ({"task": refusal}, ["boss"])


async def test_files_for_an_agent_that_keeps_none_are_its_failure(tmp_path: Path) -> None:
    lines: list[Line] = [write("/a.md", "a"), task("bare", files=["/a.md"]), "I see"]
    async with FamilyRuntime(filing({"boss": lines, "bare": ["never"]}), tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "I see"
        assert "keeps no files" in (await results(boss))["task"]
        assert await statuses(boss) == ["failed"]


# Messages.


async def test_agents_of_a_family_speak_with_parent_child_and_sibling(tmp_path: Path) -> None:
    heard: dict[str, list[str]] = {"a": [], "b": [], "boss": []}
    asked, spoken, crossed, done = (asyncio.Event() for _ in range(4))

    async def worker(request: ModelRequest) -> Line:
        name = request.messages[0].content[-1]
        heard[name] += [m.content for m in request.messages if m.origin == "agent" and m.content not in heard[name]]
        if name == "a":
            if replies(request) == 0:
                return call("send_message", to="parent", text="where is b?", call_id="up")
            if not heard["a"]:
                await spoken.wait()
                return call("check_tasks", call_id=f"look{replies(request)}")
            sibling = heard["a"][0].split()[-1]
            if replies(request) < 10 and not any(m.content == "Sent." for m in request.messages[3:]):
                return call("send_message", to=sibling, text="hello sibling", call_id="across")
            return "a is done"
        if not heard["b"]:
            await crossed.wait()
            return call("check_tasks", call_id=f"look{replies(request)}")
        done.set()
        return "b is done"

    def boss_says(request: ModelRequest) -> Line:
        heard["boss"] += [m.content for m in request.messages if m.origin == "agent"]
        known = tasks_of(request)
        if replies(request) == 0:
            return [background(call_id="a"), background(call_id="b")]
        if replies(request) == 1:
            return call("listen", call_id="li")
        if replies(request) == 2:
            return call("send_message", to=known[0], text=f"it is {known[1]}", call_id="down")
        if replies(request) == 3:
            spoken.set()
            return call("wait_for_tasks", call_id="wait")
        return "thanks"

    @tool
    async def listen() -> str:
        await asked.wait()
        return "listened"

    class Listening(FamilyRuntime):
        async def deliver(self, parcel: AnyParcel) -> None:
            await super().deliver(parcel)
            if isinstance(parcel, Note) and parcel.to == "boss":
                asked.set()
            if isinstance(parcel, Note) and parcel.text == "hello sibling":
                crossed.set()

    async with Listening(cast({"boss": boss_says, "worker": worker}, listen), tmp_path) as runtime:
        boss = await start(runtime)
        async with asyncio.timeout(3 * PATIENCE):
            await done.wait()
            assert await answer_of(boss) == "thanks"
        assert [text.splitlines()[-1] for text in heard["boss"][:1]] == ["where is b?"]
        assert [text.splitlines()[-1] for text in heard["b"]] == ["hello sibling"]
        assert heard["b"][0].startswith("Message from worker (thr_")


async def test_a_message_to_a_parent_that_is_idle_starts_a_run_there(tmp_path: Path) -> None:
    idle = asyncio.Event()

    async def worker(request: ModelRequest) -> Line:
        if replies(request) == 0:
            await idle.wait()
            return call("send_message", to="parent", text="I have a question", call_id="up")
        await asyncio.Event().wait()
        return "never"

    parts: dict[str, Part] = {"boss": [background(), "under way", "what is it?"], "worker": worker}
    async with FamilyRuntime(cast(parts), tmp_path) as runtime, asyncio.timeout(PATIENCE):
        boss = await start(runtime)
        assert await answer_of(boss) == "under way"
        idle.set()
        await next_event(boss, EventType.AGENT_COMPLETED, 2)
        assert boss.run().data == "what is it?"
        await boss.cancel()


@pytest.mark.parametrize("to", ["", "parent", "boss", "../boss", "/etc/passwd", "a b", "x" * 65])
async def test_a_message_to_what_is_no_other_agent_is_refused(to: str, tmp_path: Path) -> None:
    parts: dict[str, Part] = {"boss": [call("send_message", to=to, text="hi", call_id="m"), "my mistake"], "worker": []}
    async with FamilyRuntime(cast(parts), tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "my mistake"
        (refusal,) = (await results(boss)).values()
        assert refusal.startswith("Error: invalid_request")
        assert table(tmp_path / "boss.db", "outbox") == []


@pytest.mark.parametrize("to", ["stranger", "thr_nobody"])
async def test_a_message_to_a_stranger_reaches_nobody(to: str, tmp_path: Path) -> None:
    lines: list[Line] = [call("send_message", to=to, text="hi", call_id="m"), "done"]
    async with FamilyRuntime(cast({"boss": lines, "worker": []}), tmp_path) as runtime, asyncio.timeout(PATIENCE):
        stranger = await runtime.create_thread("boss", thread_id="stranger")
        boss = await start(runtime)
        assert await answer_of(boss) == "done"
        await boss.rest()
        assert (stranger.run_state().status, table(tmp_path / "stranger.db", "inbox")) == ("registered", [])


async def test_a_message_to_a_child_that_has_ended_is_refused(tmp_path: Path) -> None:
    def boss_says(request: ModelRequest) -> Line:
        if replies(request) == 0:
            return background()
        if replies(request) == 1:
            return call("wait_for_tasks", tasks=[*tasks_of(request)], call_id="wait")
        return call("send_message", to=tasks_of(request)[0], text="hi", call_id="m") if replies(request) == 2 else "ok"

    async with FamilyRuntime(cast({"boss": boss_says, "worker": ["done"]}), tmp_path) as runtime:
        boss = await start(runtime)
        await next_event(boss, EventType.AGENT_COMPLETED)
        assert (await results(boss))["m"].endswith("has ended: completed")


async def test_a_message_that_is_delivered_twice_is_heard_once_and_two_of_one_call_are_both_heard(
    tmp_path: Path,
) -> None:
    @tool
    async def shout(ctx: ToolContext) -> str:
        ctx.send("parent", "one")
        ctx.send("parent", "two")
        return "said"

    class Twice(FamilyRuntime):
        async def deliver(self, parcel: AnyParcel) -> None:
            await super().deliver(parcel)
            if isinstance(parcel, Note):
                await super().deliver(parcel)

    parts: dict[str, Part] = {"boss": [task(), "thanks"], "worker": [call("shout", call_id="s"), "done"]}
    async with Twice(cast(parts, shout), tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "thanks"
        heard = [m.content.splitlines()[-1] for m in (await boss.state()).messages if m.origin == "agent"]
        assert heard == ["one", "two"]


# Cost.


async def test_what_the_family_has_used_is_rolled_up(tmp_path: Path) -> None:
    parts: dict[str, list[Line]] = {
        "boss": [background("lead"), call("wait_for_tasks", call_id="w"), "done"],
        "lead": [task("worker"), "done"],
        "worker": ["done"],
    }
    model = ScriptedModel(
        lambda request: parts[request.system.split()[0]][replies(request)], price=Price(input=1.0, output=0.0)
    )
    system = AgentSystem("scripted:any", providers={"scripted": model}).use(subagents, tags=["default"])
    for name in parts:
        system.add_agent(name=name, description="", prompt=name)
    async with LocalRuntime(system, tmp_path) as runtime:
        boss = await runtime.create_thread("boss", thread_id="boss")
        await boss.invoke("go")
        run = await boss.wait(PATIENCE)
        assert run.data == "done"
        assert run.meta.children.tokens_used.total == 3 * 15
        assert run.meta.tokens_used.total == 6 * 15
        assert run.meta.cost_usd == pytest.approx(6 * 10 / 1_000_000)
        assert run.meta.children.cost_usd == pytest.approx(3 * 10 / 1_000_000)


async def test_what_a_grandchild_has_used_counts_though_it_reports_when_its_parent_has_ended(tmp_path: Path) -> None:
    hang = Hang()

    async def lead(request: ModelRequest) -> Line:
        if replies(request) == 0:
            return background("worker")
        await hang.started.wait()
        return "as far as I got"

    parts: dict[str, Part] = {"boss": [task("lead"), "thanks"], "lead": lead, "worker": HANGS}
    async with FamilyRuntime(cast(parts, hang.tool), tmp_path) as runtime, asyncio.timeout(PATIENCE):
        boss = await start(runtime)
        assert await answer_of(boss) == "thanks"
        await hang.stopped.wait()  # its run, and a model call of it, are over only now
        await eventually(lambda: boss.run().meta.children.tokens_used.total == 3 * 15)
