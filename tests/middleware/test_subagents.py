"""However a child ends, its parent gets that as the result of the call and goes on; nothing waits for ever."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import pytest

from agency import (
    AgentSystem,
    EventType,
    Finish,
    LocalRuntime,
    ModelError,
    ModelRequest,
    RequestContext,
    Thread,
    ThreadMetadata,
    ToolCall,
    tool,
)
from agency.children.parcels import AnyParcel, Report, Spawn
from agency.store import sqlite
from agency.testing import Line, call
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
from tests.support.thread_files import query, table

# Reports.


async def test_a_childs_report_becomes_the_result_of_the_call(tmp_path: Path) -> None:
    system = cast({"boss": [task(), "thanks"], "worker": lambda request: f"did: {request.messages[0].content}"})
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "thanks"
        assert await results(boss) == {"task": "did: work for task"}
        events = [event async for event in boss.events(follow=False)]
        child = (await links(boss))[0]["childThreadId"]
    spawned, completed = [event for event in events if event.type.startswith("subagent.")]
    assert (spawned.data["childThreadId"], spawned.data["agentType"]) == (child, "worker")
    assert (completed.data["childThreadId"], completed.data["status"]) == (child, "completed")
    assert completed.data["result"] == "did: work for task"
    assert [event.data["reason"] for event in events if event.type == EventType.RUN_PAUSED] == ["subagent"]
    assert sum(event.type == EventType.RUN_RESUMED for event in events) == 1


async def test_a_child_that_ends_with_a_value_reports_it_as_json(tmp_path: Path) -> None:
    @tool
    async def submit() -> Finish:
        return Finish(value={"found": 3})

    system = cast({"boss": [task(), "thanks"], "worker": [call("submit")]}, submit)
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "thanks"
        assert await results(boss) == {"task": '{"found":3}'}


async def test_two_children_of_one_reply_work_at_the_same_time(tmp_path: Path) -> None:
    here = 0
    both = asyncio.Event()

    async def worker(request: ModelRequest) -> Line:
        nonlocal here
        here += 1
        if here == 2:
            both.set()
        async with asyncio.timeout(10):
            await both.wait()
        return request.messages[0].content

    system = cast({"boss": [[task(call_id="a"), task(call_id="b")], "thanks"], "worker": worker})
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "thanks"
        assert await results(boss) == {"a": "work for a", "b": "work for b"}


async def test_the_parent_goes_on_only_when_no_child_is_left_to_wait_for(tmp_path: Path) -> None:
    slow = asyncio.Event()
    asked = 0

    def boss_says(request: ModelRequest) -> Line:
        nonlocal asked
        asked += 1
        return [task(call_id="fast"), task(call_id="slow")] if asked == 1 else "thanks"

    async def worker(request: ModelRequest) -> Line:
        if "slow" in request.messages[0].content:
            await slow.wait()
        return "done"

    async with FamilyRuntime(cast({"boss": boss_says, "worker": worker}), tmp_path) as runtime:
        boss = await start(runtime)
        await next_event(boss, EventType.SUBAGENT_COMPLETED)
        assert (boss.run_state().status, boss.run_state().reason, asked) == ("paused", "subagent", 1)
        assert [link["status"] for link in await links(boss)] == ["completed", "waiting"]
        slow.set()
        assert await answer_of(boss) == "thanks"
        assert asked == 2


async def test_a_report_that_comes_while_other_calls_of_the_batch_run_is_kept(tmp_path: Path) -> None:
    reported = asyncio.Event()

    @tool(safe=True)
    async def slow() -> str:
        await reported.wait()
        return "slow"

    system = cast({"boss": [[task(), call("slow", call_id="slow")], "thanks"], "worker": ["early"]}, slow)
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await start(runtime)
        await next_event(boss, EventType.SUBAGENT_COMPLETED)
        assert boss.run_state().status == "running"
        reported.set()
        assert await answer_of(boss) == "thanks"
        assert await results(boss) == {"task": "early", "slow": "slow"}


async def test_a_child_that_asks_a_person_holds_its_parent_until_it_has_its_answer(tmp_path: Path) -> None:
    @tool
    async def pay() -> str:
        return "paid"

    parts: dict[str, Part] = {"boss": [task("payer"), "thanks"], "payer": [call("pay"), "paid it"]}
    system = cast(parts, pay, config={"payer": {"hitl": {"tools": ["pay"]}}})
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await start(runtime)
        payer = await runtime.child_of(boss)
        assert (await payer.wait(timeout=10)).meta.pause_reason == "hitl"
        assert boss.run_state().reason == "subagent"
        await payer.approve()
        assert await answer_of(boss) == "thanks"
        assert await results(boss) == {"task": "paid it"}


# Children that do not succeed.


async def test_a_child_that_fails_is_the_calls_error_and_the_parent_goes_on(tmp_path: Path) -> None:
    system = cast({"boss": [task(), "so be it"], "worker": [ModelError("no such key", model_code="ERR_AUTH")]})
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "so be it"
        assert await results(boss) == {"task": "Error: external: the subagent failed: ERR_AUTH: no such key"}
        assert [link["status"] for link in await links(boss)] == ["failed"]


async def test_a_child_that_is_canceled_is_the_calls_result_and_the_parent_goes_on(tmp_path: Path) -> None:
    hang = Hang()
    system = cast({"boss": [task(), "so be it"], "worker": HANGS}, hang.tool)
    async with FamilyRuntime(system, tmp_path) as runtime, asyncio.timeout(10):
        boss = await start(runtime)
        child = await runtime.child_of(boss)
        await hang.started.wait()
        await child.cancel()
        assert await answer_of(boss) == "so be it"
        assert await results(boss) == {"task": "Canceled: the subagent was canceled."}
        assert [link["status"] for link in await links(boss)] == ["canceled"]
        assert hang.stopped.is_set()


async def test_a_child_that_takes_too_long_is_stopped_and_the_parent_goes_on(tmp_path: Path) -> None:
    hang = Hang()
    system = cast({"boss": [task(timeoutMs=50), "so be it"], "worker": HANGS}, hang.tool)
    async with FamilyRuntime(system, tmp_path) as runtime, asyncio.timeout(10):
        boss = await start(runtime)
        assert await answer_of(boss) == "so be it"
        (result,) = (await results(boss)).values()
        assert result.startswith("Error: timeout: the subagent was stopped")
        assert [link["status"] for link in await links(boss)] == ["timed_out"]
        child = await runtime.child_of(boss)
        assert (await child.wait()).status == "canceled"


async def test_a_childs_deadline_stands_while_everything_is_closed(tmp_path: Path) -> None:
    hang = Hang()
    parts: dict[str, Part] = {"boss": [task(timeoutMs=50), "so be it"], "worker": HANGS}
    async with FamilyRuntime(cast(parts, hang.tool), tmp_path) as runtime, asyncio.timeout(10):
        boss = await start(runtime)
        await next_event(boss, EventType.SUBAGENT_SPAWNED)
    async with FamilyRuntime(cast(parts, hang.tool), tmp_path) as runtime:
        boss = await runtime.thread("boss")
        assert await answer_of(boss) == "so be it"
        assert [link["status"] for link in await links(boss)] == ["timed_out"]


async def test_a_child_that_ends_in_time_leaves_no_timer(tmp_path: Path) -> None:
    system = cast({"boss": [task(timeoutMs=60_000), "thanks"], "worker": ["done"]})
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "thanks"
        assert table(tmp_path / "boss.db", "timers") == []


async def test_one_childs_failure_does_not_touch_its_sibling(tmp_path: Path) -> None:
    def worker(request: ModelRequest) -> Line:
        return ModelError("broken") if "bad" in request.messages[0].content else "fine"

    system = cast({"boss": [[task(call_id="bad"), task(call_id="good")], "thanks"], "worker": worker})
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "thanks"
        read = await results(boss)
        assert read["good"] == "fine"
        assert read["bad"].startswith("Error: external: the subagent failed")


class Undelivered(LocalRuntime):
    """A runtime that gets no order to start a child through, and says that it tried."""

    def __init__(self, system: AgentSystem, data_dir: Path) -> None:
        super().__init__(system, data_dir)
        self.tried = asyncio.Event()

    async def deliver(self, parcel: AnyParcel) -> None:
        if isinstance(parcel, Spawn):
            self.tried.set()
            await asyncio.Event().wait()
        await super().deliver(parcel)


@pytest.mark.parametrize("fate", ["missing", "disabled"])
async def test_a_child_whose_agent_is_gone_when_the_order_arrives_is_reported_as_failed(
    fate: Literal["missing", "disabled"], tmp_path: Path
) -> None:
    lines: list[Line] = [task(), "so be it"]
    async with Undelivered(cast({"boss": lines, "worker": []}), tmp_path) as early, asyncio.timeout(10):
        await start(early)
        await early.tried.wait()
    later = cast({"boss": lines, "worker": []}, disabled=["worker"]) if fate == "disabled" else cast({"boss": lines})
    async with FamilyRuntime(later, tmp_path) as runtime:
        boss = await runtime.thread("boss")
        assert await answer_of(boss) == "so be it"
        (result,) = (await results(boss)).values()
        assert result.startswith("Error: external: the subagent failed")
        assert "'worker'" in result
        assert [link["status"] for link in await links(boss)] == ["failed"]
        assert runtime.thread_ids() == ["boss"]


# The waiter.


async def test_the_waiter_is_on_disk_before_anything_of_the_child_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(path: Path, question: str) -> int:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
            return int(db.execute(question).fetchone()[0])

    waiters_when_child_commits: list[int] = []

    def look(moment: Literal["before", "after"]) -> None:
        if moment == "before" and len(list(tmp_path.glob("*.db"))) > 1:
            waiting = "SELECT count(*) FROM children WHERE status = 'waiting'"
            waiters_when_child_commits.append(rows(tmp_path / "boss.db", waiting))

    system = cast({"boss": [task(), "thanks"], "worker": ["at once"]})
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await runtime.create_thread("boss", thread_id="boss")
        monkeypatch.setattr(sqlite, "commit_hook", look)
        await boss.invoke("go")
        assert await answer_of(boss) == "thanks"
    # Its creation, its first event, its run: all the child's commits up to the report find the waiter there.
    assert waiters_when_child_commits[:3] == [1, 1, 1]


async def test_the_waiter_is_there_when_the_childs_model_is_first_called(tmp_path: Path) -> None:
    seen: list[Any] = []

    def worker(request: ModelRequest) -> Line:
        seen.extend(query(tmp_path / "boss.db", "SELECT call, agent_type FROM children WHERE status = 'waiting'"))
        return "done"

    async with FamilyRuntime(cast({"boss": [task(), "thanks"], "worker": worker}), tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "thanks"
        assert seen == [("task", "worker")]


async def test_a_report_that_is_delivered_twice_counts_once(tmp_path: Path) -> None:
    async with FamilyRuntime(cast({"boss": [task(), "thanks"], "worker": ["done"]}), tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "thanks"
        (link,) = await links(boss)
        before = [event async for event in boss.events(follow=False)]
        again = Report(
            to="boss", thread_id=link["childThreadId"], token=link["token"], status="failed", report="changed my mind"
        )
        await runtime.deliver(again)
        await runtime.deliver(again.model_copy(update={"token": "of nobody"}))
        assert [event async for event in boss.events(follow=False)] == before
        assert await links(boss) == [link]


async def test_only_a_childs_first_run_is_the_parents_business(tmp_path: Path) -> None:
    worker = ["done", "something else"]
    async with FamilyRuntime(cast({"boss": [task(), "thanks"], "worker": worker}), tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "thanks"
        before = await links(boss)
        child = await runtime.child_of(boss)
        await child.invoke("and now?")
        assert await answer_of(child) == "something else"
        assert table(tmp_path / f"{child.id}.db", "outbox") == []
        assert await links(boss) == before


async def test_a_child_works_on_and_reports_after_everything_was_closed(tmp_path: Path) -> None:
    called = asyncio.Event()

    async def never(request: ModelRequest) -> Line:
        called.set()
        await asyncio.Event().wait()
        return "never"

    lines: list[Line] = [task(), "thanks"]
    async with FamilyRuntime(cast({"boss": lines, "worker": never}), tmp_path) as runtime, asyncio.timeout(10):
        await start(runtime)
        await called.wait()
    async with FamilyRuntime(cast({"boss": lines, "worker": ["late but there"]}), tmp_path) as runtime:
        boss = await runtime.thread("boss")
        assert await answer_of(boss) == "thanks"
        assert await results(boss) == {"task": "late but there"}


# Canceling.


async def test_cancel_reaches_children_and_grandchildren(tmp_path: Path) -> None:
    hang = Hang()
    parts: dict[str, Part] = {"boss": [task("lead")], "lead": [task("worker")], "worker": HANGS}
    async with FamilyRuntime(cast(parts, hang.tool), tmp_path) as runtime, asyncio.timeout(10):
        boss = await start(runtime)
        lead = await runtime.child_of(boss)
        worker = await runtime.child_of(lead)
        await hang.started.wait()
        await boss.cancel()
        for thread in (boss, lead, worker):
            assert (await thread.wait()).status == "canceled"
        await hang.stopped.wait()
        assert [link["status"] for link in [*await links(boss), *await links(lead)]] == ["canceled", "canceled"]
        assert await results(boss) == {"task": "Canceled: the run was canceled."}


async def test_cancel_reaches_every_child_and_leaves_finished_ones_alone(tmp_path: Path) -> None:
    hang = Hang()

    def worker(request: ModelRequest) -> Line:
        return "done" if "fast" in request.messages[0].content else HANGS[0]

    boss_lines = [[task(call_id="fast"), task(call_id="slow", timeoutMs=60_000)]]
    system = cast({"boss": boss_lines, "worker": worker}, hang.tool)
    async with FamilyRuntime(system, tmp_path) as runtime, asyncio.timeout(10):
        boss = await start(runtime)
        await next_event(boss, EventType.SUBAGENT_COMPLETED)
        await hang.started.wait()
        await boss.cancel()
        await hang.stopped.wait()
        assert [link["status"] for link in await links(boss)] == ["completed", "canceled"]
        assert await results(boss) == {"fast": "done", "slow": "Canceled: the run was canceled."}
        assert table(tmp_path / "boss.db", "timers") == []


# What the model may do.


async def test_an_unknown_subagent_is_a_tool_error_that_names_those_there_are(tmp_path: Path) -> None:
    system = cast({"boss": [task("ghost"), "my mistake"], "worker": [], "retired": []}, disabled=["retired"])
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "my mistake"
        refusal = "Error: invalid_request: there is no agent 'ghost' to use; there are: worker, boss, general-purpose"
        assert await results(boss) == {"task": refusal}
        assert await links(boss) == []
        assert runtime.thread_ids() == ["boss"]


@pytest.mark.parametrize("name", ["boss", "retired", "unlisted"])
async def test_with_a_list_neither_oneself_nor_disabled_nor_unlisted_agents_can_be_used(
    name: str, tmp_path: Path
) -> None:
    parts: dict[str, Part] = {"boss": [task(name), "my mistake"], "worker": [], "retired": [], "unlisted": []}
    config = {"boss": {"subagents": {"subagents": ["worker", "retired"]}}}
    async with FamilyRuntime(cast(parts, config=config, disabled=["retired"]), tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "my mistake"
        assert await results(boss) == {
            "task": f"Error: invalid_request: there is no agent {name!r} to use; there are: worker"
        }


async def test_the_model_sees_which_agents_there_are_and_the_timeout(tmp_path: Path) -> None:
    system = cast({"boss": ["hello"], "worker": [], "writer": [], "retired": []}, disabled=["retired"])
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await runtime.create_thread("boss")
        spec = next(spec for spec in (await boss.state()).tools if spec.name == "task")
    properties: Any = spec.parameters["properties"]
    assert list(properties) == ["description", "subagentType", "timeoutMs", "background", "files", "returnFiles"]
    assert properties["subagentType"]["enum"] == ["worker", "writer", "general-purpose"]
    assert spec.parameters["required"] == ["description", "subagentType"]
    assert "- worker: Is worker.\n- writer: Is writer." in spec.description


async def test_of_a_long_description_the_list_of_agents_has_the_beginning(tmp_path: Path) -> None:
    system = cast({"boss": ["hello"]})
    system.add_agent(name="wordy", description="w" * 100_000, prompt="wordy")
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await runtime.create_thread("boss")
        spec = next(spec for spec in (await boss.state()).tools if spec.name == "task")
    assert f"- wordy: {'w' * 1_000}…\n" in spec.description


async def test_an_agent_with_an_empty_list_has_no_task_tool(tmp_path: Path) -> None:
    alone: dict[str, Any] = {"boss": {"subagents": {"subagents": []}}}
    async with FamilyRuntime(cast({"boss": ["hello"], "worker": []}, config=alone), tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "hello"
        assert (await boss.state()).tools == ()


@pytest.mark.parametrize(("argument", "value"), [("timeoutMs", 0), ("timeoutMs", -1), ("description", "")])
async def test_arguments_out_of_range_are_refused_and_start_nothing(
    argument: str, value: int | str, tmp_path: Path
) -> None:
    wrong = ToolCall(id="task", name="task", args={"description": "work", "subagentType": "worker", argument: value})
    async with FamilyRuntime(cast({"boss": [wrong, "my mistake"], "worker": []}), tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "my mistake"
        (refusal,) = (await results(boss)).values()
        assert refusal.startswith(f"Error: invalid_request: wrong arguments for task: {argument}: ")
        assert runtime.thread_ids() == ["boss"]


# What the child knows and what people see.


async def test_the_child_knows_its_parent_and_where_the_request_came_from(tmp_path: Path) -> None:
    system = cast({"boss": [task("lead"), "ok"], "lead": [task(), "ok"], "worker": ["done"]})
    request = RequestContext(
        user_agent="curl/8", ip="10.0.0.7", referrer="https://a.example", origin="https://b.example"
    )
    metadata = ThreadMetadata(
        id="boss", agent_type="boss", created_at="2025-01-01T00:00:00Z", agency_id="acme", request=request
    )
    async with FamilyRuntime(system, tmp_path) as runtime:
        created = await Thread.open(tmp_path / "boss.db", system, runtime, create=(metadata, system.agents["boss"]))
        await created.close()
        boss = await runtime.thread("boss")
        await boss.invoke("go")
        assert await answer_of(boss) == "ok"
        lead = await runtime.child_of(boss)
        worker = await runtime.child_of(lead)
        for parent, child in ((boss, lead), (lead, worker)):
            assert child.metadata.request == request
            assert child.metadata.agency_id == "acme"
            assert child.metadata.parent is not None
            assert child.metadata.parent.thread_id == parent.id
        assert [message.content for message in (await worker.state()).messages] == ["work for task", "done"]


async def test_the_state_has_a_link_to_every_child(tmp_path: Path) -> None:
    boss_lines: list[Line] = [task(call_id="one"), task("writer", call_id="two"), "thanks"]
    system = cast({"boss": boss_lines, "worker": ["worked"], "writer": ["written"]})
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "thanks"
        first, second = await links(boss)
        assert set(first) == {
            "childThreadId",
            "agentType",
            "token",
            "status",
            "toolCallId",
            "createdAt",
            "completedAt",
            "report",
            "background",
        }
        assert [(link["toolCallId"], link["agentType"]) for link in (first, second)] == [
            ("one", "worker"),
            ("two", "writer"),
        ]
        assert [(link["status"], link["report"]) for link in (first, second)] == [
            ("completed", "worked"),
            ("completed", "written"),
        ]
        assert first["createdAt"] <= first["completedAt"] <= second["completedAt"]
        assert sorted(runtime.thread_ids()) == sorted(["boss", first["childThreadId"], second["childThreadId"]])
