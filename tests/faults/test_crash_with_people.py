"""The process is killed at every single commit while people decide, pause, queue and interrupt, and agents work in the
background; it is then finished by a patient user.

Who hears of what in which turn depends on who is quicker, so this compares no transcripts. It checks what must hold
whatever happened: each call has one result, what must not be repeated was not, every message and every report is heard
once, hooks are told once per run, and nothing is left at work.
"""

from __future__ import annotations

import asyncio
import re
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest

from agency import (
    AgentSystem,
    Always,
    EventType,
    Finish,
    HookContext,
    LocalRuntime,
    Message,
    Middleware,
    ModelRequest,
    Respond,
    RunEnd,
    Thread,
    ToolContext,
    WrongState,
    tool,
)
from agency.children import outbox, rows
from agency.store import records, timers
from agency.store.peek import holds_thread
from agency.store.store import ThreadStore
from agency.testing import Line, ScriptedModel, call, die_at_commit
from middleware import hitl
from tests.support.crashes import ENDS, PARTS, commits_of, in_a_process, started
from tests.support.waiting import eventually

STARTED = re.compile(r"Started task (thr_\w+) in the background")
PATIENCE = 30


class Hooks(Middleware):
    """Counts in the thread's own file what it is told."""

    name = "hooks"

    def _count(self, ctx: HookContext, hook: str) -> None:
        counted: Any = ctx.store.get("hooks", hook) or {}
        ctx.store.put("hooks", hook, {**counted, str(ctx.run_id): counted.get(str(ctx.run_id), 0) + 1})

    async def on_run_start(self, ctx: HookContext) -> None:
        self._count(ctx, "start")

    async def on_run_end(self, ctx: HookContext, run: RunEnd) -> None:
        self._count(ctx, "end")

    async def on_turn_end(self, ctx: HookContext) -> Finish | None:
        said = [message.content for message in ctx.messages()]
        return Finish(value="third is done") if said[-1] == "third was heard" else None


def build(folder: Path) -> AgentSystem:
    def note(line: str) -> None:
        with (folder / "ledger").open("a") as ledger:
            ledger.write(line + "\n")

    @tool(safe=True)
    async def fetch(what: str, ctx: ToolContext) -> str:
        note(ctx.idempotency_key)
        return f"{what} fetched"

    @tool(idempotent=False, in_doubt="ask")
    async def charge(cents: int, ctx: ToolContext) -> str:
        note(ctx.idempotency_key)
        await asyncio.sleep(0)
        return f"charged {cents}"

    @tool(safe=True)
    async def hang(ctx: ToolContext) -> str:
        note(ctx.idempotency_key)
        await asyncio.Event().wait()
        return "never"

    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)}).defaults()
    system.use(hitl).use(Hooks(), tags=["boss"]).add_tool(fetch).add_tool(charge).add_tool(hang)
    system.add_agent(
        name="boss",
        description="Has the work done.",
        prompt="boss",
        tags=["default", "hitl", "boss"],
        config={"hitl": {"tools": ["charge"], "timeoutMs": 600_000}},
    )
    return system.add_agent(name="worker", description="Does it.", prompt="worker")


def script(request: ModelRequest) -> Line:
    begin = max(i for i, message in enumerate(request.messages) if message.role == "user" and message.origin is None)
    step = sum(message.role == "assistant" for message in request.messages[begin:])
    lines: list[Line]
    if request.system.startswith("worker"):
        lines = [
            [
                call("write_file", path="/out.md", content="found", call_id="w"),
                call("send_message", to="parent", text="half way", call_id="m"),
            ],
            f"report on {request.messages[0].content}",
        ]
    elif request.messages[begin].content == "first":
        known = [found for message in request.messages for found in STARTED.findall(message.content)]
        order: dict[str, Any] = {"subagentType": "worker", "background": True, "returnFiles": ["/out.md"]}
        lines = [
            [
                call("task", description="north", call_id="t1", **order),
                call("task", description="south", call_id="t2", **order),
            ],
            [call("charge", cents=5, call_id="c1"), call("fetch", what="a", call_id="f1")],
            [call("wait_for_tasks", tasks=[*known], call_id="wa"), call("charge", cents=7, call_id="c2")],
            "first is done",
        ]
    elif request.messages[begin].content == "second":
        lines = [[call("fetch", what="b", call_id="f2"), call("hang", call_id="ha")], "never said"]
    else:
        lines = ["third was heard"]
    return lines[min(step, len(lines) - 1)]


async def operate(folder: Path, dies: tuple[int, Literal["before", "after"]] | None = None) -> None:
    """What a patient user does, from wherever things stand."""
    if dies is not None:
        die_at_commit(*dies)
    async with LocalRuntime(build(folder), folder / "threads") as runtime:
        known = "boss" in runtime.thread_ids()
        boss = await (runtime.thread("boss") if known else runtime.create_thread("boss", thread_id="boss"))
        for _ in range(20):
            run = boss.run_state()
            if run.status == "registered":
                await boss.invoke("first", idempotency_key="1")
            elif run.run_id == "boss.1":
                await operate_first(boss)
            elif run.status == "completed":
                await boss.rest()
                await eventually(lambda: boss.idle, every=0)  # the end of the run is being told
                return
            else:
                await started(boss, "ha")
                await boss.invoke("third", when="now", idempotency_key="3")
                await boss.wait(timeout=PATIENCE)
        raise AssertionError(f"no end in sight: {boss.run()}")


def needs_a_person(thread: Thread) -> bool:
    run = thread.run_state()
    return run.status != "running" and run.reason != "subagent"


async def operate_first(boss: Thread) -> None:
    """Have the next run queued, pause, decide in the pause, and go on."""
    await boss.invoke("second", when="next_run", idempotency_key="2")
    await eventually(lambda: needs_a_person(boss) or boss.run_state().run_id != "boss.1", PATIENCE, every=0)
    if boss.run_state().reason == "hitl":
        with suppress(WrongState):  # it was paused before the process died
            await boss.pause()
        for pending in boss.run().meta.pending_tool_calls:
            doubtful = pending.kind == "in_doubt"
            await boss.decide({pending.approval_id: Respond(content="I checked: charged") if doubtful else Always()})
    if boss.run_state().reason == "manual":
        await boss.resume()


class Family:
    """What is on disk, thread by thread."""

    def __init__(self, folder: Path) -> None:
        self.messages: dict[str, list[Message]] = {}
        self.ended: Counter[str] = Counter()
        self.left: list[object] = []
        self.hooks: dict[str, Any] = {}
        self.files: list[Any] = []
        for path in filter(holds_thread, sorted((folder / "threads").glob("*.db"))):
            store = ThreadStore.open(path)
            name = path.stem
            self.messages[name] = store.messages()
            events = store.events(limit=10_000)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            self.ended.update(f"{name}.{event.data['callId']}" for event in events if event.type in ENDS)
            self.left += [*timers.timers(store), *rows.waits(store), *outbox.parcels(store)]
            self.left += rows.children(store, status="waiting")
            run = records.last_run(store)
            self.left += [run.status] if run is not None and run.status in ("running", "paused") else []
            if name == "boss":
                self.hooks = {hook: store.draft().get("hooks", hook) for hook in ("start", "end")}
                if events:
                    self.files = store.query("SELECT path, content FROM files")
                self.asked = [event for event in events if event.type == EventType.HITL_INTERRUPT]
            store.close()
        ledger = folder / "ledger"
        self.executed = Counter(ledger.read_text().splitlines() if ledger.exists() else [])

    def executions(self, call_id: str) -> int:
        return sum(count for key, count in self.executed.items() if key.endswith(f".{call_id}"))


def check(found: Family, ended_before: Counter[str]) -> None:
    for messages in found.messages.values():
        due: list[str] = []
        for message in messages:
            if message.role == "tool":
                assert due and due.pop(0) == message.tool_call_id, "one result per call, in the order of the calls"
            else:
                assert due == []
                due = [each.id for each in message.tool_calls]
        assert due == []
    boss = found.messages["boss"]
    said = Counter(message.content for message in boss if message.role == "user" and message.origin is None)
    assert said == Counter(["first", "second", "third"]), "every message is heard once"
    for way in ("north", "south"):
        heard = [m for m in boss if f"report on {way}" in m.content]
        assert heard and sum(m.origin == "task" for m in heard) <= 1, "a report is told of once"
    assert sum(m.origin == "agent" for m in boss) == 2, "what the workers say is heard once each"
    assert found.files == [("/out.md", b"found")]
    texts = {message.tool_call_id: message.content for message in boss if message.role == "tool"}
    assert texts["c1"] in ("charged 5", "I checked: charged")
    assert texts["c2"] in ("charged 7", "I checked: charged")
    assert texts["ha"] == "Canceled: a new message came first."
    assert texts["f1"] == "a fetched"
    assert texts["f2"] == "b fetched" or (texts["f2"] == texts["ha"] and not ended_before["boss.f2"])
    assert boss[-1].content == "third was heard"
    assert found.executions("c1") <= 1 and found.executions("c2") <= 1, "nobody pays twice"
    for call_id in ("f1", "f2"):
        assert found.executions(call_id) <= (1 if ended_before[f"boss.{call_id}"] else 2)
    assert found.hooks == {hook: {"boss.1": 1, "boss.2": 1} for hook in ("start", "end")}
    assert found.left == [], "nothing is left at work"


def test_undisturbed_it_goes_as_it_should(tmp_path: Path) -> None:
    assert in_a_process(lambda: asyncio.run(operate(tmp_path))) == 0
    found = Family(tmp_path)
    check(found, Counter())
    assert (len(found.messages), len(found.asked)) == (3, 1)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_commit_leaves_every_promise_kept(
    when: Literal["before", "after"], part: int, tmp_path: Path
) -> None:
    killed = 0
    for n in commits_of(part):
        folder = tmp_path / str(n)
        folder.mkdir()
        status = in_a_process(lambda folder=folder, n=n: asyncio.run(operate(folder, (n, when))))  # type: ignore[misc]
        ended_before = Family(folder).ended
        assert in_a_process(lambda folder=folder: asyncio.run(operate(folder))) == 0, n  # type: ignore[misc]
        check(Family(folder), ended_before)
        if status == 0:
            break
        assert status == -signal.SIGKILL
        killed += 1
    assert killed >= 50 // PARTS
