"""The process is killed before and after every single commit of a scenario, and the run is then finished.

The scenario has parallel tools, a tool that is retried after a timer, a deferred approval of a call that must not
happen twice, two subagents (one with a timeout) and, in a second run, a cancel. No point is left out: the test goes on
until a run gets through without reaching the n-th commit. On shared storage worker threads end the commits, and several
drafts may become one.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from agency import (
    AgentSystem,
    Event,
    LocalRuntime,
    Message,
    ModelRequest,
    RetryPolicy,
    Thread,
    ToolContext,
    ToolError,
    tool,
)
from agency.store.peek import holds_thread
from agency.store.sqlite import Storage
from agency.store.store import ThreadStore
from agency.testing import Line, ScriptedModel, call
from middleware import hitl
from tests.support.crashes import (
    ENDS,
    IN_DOUBT,
    PARTS,
    as_undisturbed,
    commits_of,
    in_a_process,
    killed_at,
    started,
)


def build(folder: Path) -> AgentSystem:
    def note(name: str, ctx: ToolContext) -> None:
        with (folder / "ledger").open("a") as ledger:
            ledger.write(f"{name} {ctx.idempotency_key} {ctx.attempt}\n")

    @tool(safe=True)
    async def fetch(what: str, ctx: ToolContext) -> str:
        note("fetch", ctx)
        await asyncio.sleep(0.001)  # so that others commit while it is at work
        return f"{what} fetched"

    @tool(retry=RetryPolicy(attempts=3))
    async def flaky(ctx: ToolContext) -> str:
        note("flaky", ctx)
        if ctx.attempt == 1:
            raise ToolError("not yet", retry_after_ms=5)
        return "worked in the end"

    @tool(idempotent=False)
    async def charge(cents: int, ctx: ToolContext) -> str:
        note("charge", ctx)
        await asyncio.sleep(0.001)  # the same
        return f"charged {cents}"

    @tool(safe=True)
    async def hang(ctx: ToolContext) -> str:
        note("hang", ctx)
        await asyncio.Event().wait()
        raise AssertionError("never")

    return (
        AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)})
        .defaults()
        .use(hitl)
        .add_tool(fetch)
        .add_tool(flaky)
        .add_tool(charge)
        .add_tool(hang)
        .add_agent(
            name="boss",
            description="Has the work done.",
            prompt="boss",
            tags=["default", "hitl"],
            config={"hitl": {"tools": ["charge"]}},
        )
        .add_agent(name="worker", description="Does it.", prompt="worker")
    )


def script(request: ModelRequest) -> Line:
    begin = max(i for i, message in enumerate(request.messages) if message.role == "user")
    step = sum(message.role == "assistant" for message in request.messages[begin:])
    lines: list[Line]
    if request.system.startswith("worker"):
        lines = [call("fetch", what="detail", call_id="w"), f"report on {request.messages[0].content}"]
    elif request.messages[begin].content == "first":
        lines = [
            [call("fetch", what=what, call_id=f"f{what}") for what in "abc"],
            call("flaky", call_id="fl"),
            [call("charge", cents=5, call_id="ch"), call("fetch", what="receipt", call_id="re")],
            [
                call("task", description="north", subagentType="worker", call_id="t1"),
                call("task", description="south", subagentType="worker", timeoutMs=60_000, call_id="t2"),
            ],
            "the first is done",
        ]
    else:
        lines = [[call("fetch", what="d", call_id="fd"), call("hang", call_id="ha")]]
    return lines[step]


async def operate(folder: Path) -> None:
    """What a patient user does, from wherever things stand."""
    async with LocalRuntime(build(folder), folder / "threads") as runtime:
        known = "boss" in runtime.thread_ids()
        boss = await (runtime.thread("boss") if known else runtime.create_thread("boss", thread_id="boss"))
        for _ in range(20):
            run = boss.run_state()
            if run.status == "registered":
                await boss.invoke("first", idempotency_key="1")
            elif run.run_id == "boss.1":
                await operate_first(boss)
            elif run.status == "canceled":
                return
            else:
                await started(boss, "ha")
                await boss.cancel()
        raise AssertionError(f"no end in sight: {boss.run()}")


async def operate_first(boss: Thread) -> None:
    result = await boss.wait(timeout=20)
    if result.meta.pause_reason == "hitl":
        await boss.approve()
    else:
        assert result.status == "completed", result
        await boss.invoke("second", idempotency_key="2")


def crash(folder: Path, n: int, when: Literal["before", "after"]) -> int:
    return killed_at(n, when, lambda: asyncio.run(operate(folder)))


class Threads:
    """What is on disk after a run, thread by thread."""

    def __init__(self, folder: Path) -> None:
        self.messages: dict[str, list[Message]] = {}
        self.events: dict[str, list[Event]] = {}
        for path in filter(holds_thread, sorted((folder / "threads").glob("*.db"))):
            store = ThreadStore.open(path)
            self.messages[path.stem] = store.messages()
            self.events[path.stem] = store.events(limit=10_000)
            store.close()
        ledger = folder / "ledger"
        self.calls = Counter(ledger.read_text().splitlines() if ledger.exists() else [])

    def ended_calls(self) -> Counter[tuple[str, str]]:
        """By thread and call: how many attempts have their end on disk."""
        return Counter(
            (thread, str(event.data["callId"]))
            for thread, events in self.events.items()
            for event in events
            if event.type in ENDS
        )

    def summary(self) -> dict[str, Any]:
        return {
            thread: Counter((event.type, event.data.get("callId")) for event in as_undisturbed(events))
            for thread, events in self.events.items()
        }


@pytest.fixture(scope="module", params=["local", "shared"])
def storage(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the files of every runtime are, also in the processes that are forked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agency.local.Storage", partial(Storage, shared=request.param == "shared"))
        yield request.param


@pytest.fixture(scope="module")
def undisturbed(storage: str, tmp_path_factory: pytest.TempPathFactory) -> Threads:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert in_a_process(lambda: asyncio.run(operate(folder))) == 0
    return Threads(folder)


def executions(threads: Threads, thread: str, call_id: str) -> Counter[int]:
    """How often each attempt of a call was really executed."""
    own = [line.split() for line in threads.calls.elements() if line.split()[1].startswith(f"{thread}.")]
    return Counter(int(attempt) for _, key, attempt in own if key.endswith(f".{call_id}"))


def check(found: Threads, expected: Threads, ended_before: Counter[tuple[str, str]]) -> None:
    doubted = any(IN_DOUBT in message.content for message in found.messages["boss"])
    assert found.messages.keys() == expected.messages.keys()
    for thread, messages in expected.messages.items():
        compared = [m for m in found.messages[thread] if not (doubted and m.tool_call_id == "ch")]
        assert compared == [m for m in messages if not (doubted and m.tool_call_id == "ch")]
        assert [event.seq for event in found.events[thread]] == list(range(1, len(found.events[thread]) + 1))
    if not doubted:
        assert found.summary() == expected.summary()
    for (thread, call_id), attempts in ended_before.items():
        executed = executions(found, thread, call_id)
        assert all(executed[attempt] <= 1 for attempt in range(1, attempts + 1)), (thread, call_id)
    assert executions(found, "boss", "ch").total() <= 1
    assert max(found.calls.values()) <= 2


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_commit_loses_nothing_and_repeats_nothing_that_had_ended(
    when: Literal["before", "after"], part: int, storage: str, undisturbed: Threads, tmp_path: Path
) -> None:
    killed = 0
    for n in commits_of(part):
        folder = tmp_path / str(n)
        folder.mkdir()
        status = crash(folder, n, when)
        ended_before = Threads(folder).ended_calls()
        assert in_a_process(lambda folder=folder: asyncio.run(operate(folder))) == 0, n  # type: ignore[misc]  # bound now
        check(Threads(folder), undisturbed, ended_before)
        if status == 0:
            break
        assert status == -signal.SIGKILL
        killed += 1
    assert killed >= (45 if storage == "local" else 30) // PARTS
