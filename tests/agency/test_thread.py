"""A thread in one process, as its users see it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agency import (
    AgentSystem,
    Approve,
    DefinitionError,
    Deny,
    EventType,
    Fail,
    Finish,
    Handoff,
    InvalidInput,
    Limits,
    LocalRuntime,
    Message,
    ModelError,
    ModelReply,
    ModelRequest,
    NotFound,
    Rerun,
    RetryPolicy,
    StaleActivation,
    Thread,
    ToolContext,
    ToolError,
    Usage,
    WrongState,
    open_thread,
    tool,
)
from agency.backoff import Backoff
from agency.clock import now_ms
from agency.errors import KeyReused, Poisoned
from agency.store.store import ThreadStore
from agency.testing import Line, ScriptedModel, call
from agency.thread.parking import park
from middleware import hitl
from tests.support.waiting import eventually, turns_of_the_loop

Build = Callable[..., tuple[LocalRuntime, ScriptedModel]]
PATIENCE = 10.0


async def texts(thread: Thread, role: str) -> list[str]:
    return [message.content for message in (await thread.state()).messages if message.role == role]


async def kinds(thread: Thread) -> list[str]:
    return [event.type.value async for event in thread.events(follow=False)]


async def until(thread: Thread, event_type: EventType, **data: Any) -> None:
    """Return when such an event has happened."""
    async with asyncio.timeout(PATIENCE):
        async for event in thread.events():
            if event.type == event_type and data.items() <= event.data.items():
                return


@tool(safe=True)
async def shout(word: str) -> str:
    return word.upper()


async def test_a_message_runs_to_an_answer_and_text_beside_tool_calls_is_kept(build: Build) -> None:
    both = ModelReply(text="Let me shout.", tool_calls=(call("shout", word="hey", call_id="c1"),), stop="tool_use")
    runtime, _ = build([both, "I shouted."], shout)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        accepted = await thread.invoke("Shout hey.")
        assert (accepted.run_id, accepted.status) == (f"{thread.id}.1", "running")
        result = await thread.wait(PATIENCE)
        assert (result.status, result.data, result.errors) == ("completed", "I shouted.", ())
        assert (result.meta.turns, result.meta.tokens_used.output) == (2, 5)
        said = (await thread.state()).messages
        assert [(m.role, m.content) for m in said] == [
            ("user", "Shout hey."),
            ("assistant", "Let me shout."),
            ("tool", "HEY"),
            ("assistant", "I shouted."),
        ]
        assert said[1].tool_calls == both.tool_calls
        assert len({m.id for m in said}) == 4


async def test_a_thread_may_doze_while_its_file_is_open_and_has_not_been_used(build: Build) -> None:
    runtime, _ = build(["one", "two"])
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("first")
        await thread.wait(PATIENCE)
        assert (thread.may_doze(0), thread.may_doze(60)) == (True, False)
        thread.doze(60)
        assert thread.may_doze(0), "too soon"
        thread.doze(0)
        assert not thread.may_doze(0), "it has let go of its file"
        await thread.invoke("second")
        assert (await thread.wait(PATIENCE)).status == "completed"
        assert thread.may_doze(0)


async def test_a_second_message_starts_a_second_run_with_counters_of_its_own(build: Build) -> None:
    runtime, model = build(["one", "two"])
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("a")
        await thread.wait(PATIENCE)
        second = await thread.invoke("b")
        result = await thread.wait(PATIENCE)
        assert second.run_id == f"{thread.id}.2"
        assert (result.data, result.meta.turns) == ("two", 1)
        assert [m.content for m in model.requests[1].messages] == ["a", "one", "b"]
        assert [r.key for r in model.requests] == [f"{thread.id}.1.2", f"{thread.id}.2.2"]


async def test_safe_calls_run_side_by_side_and_results_stand_in_the_order_of_the_calls(build: Build) -> None:
    meeting = asyncio.Barrier(3)

    @tool(safe=True)
    async def meet(name: str) -> str:
        async with asyncio.timeout(PATIENCE):
            await meeting.wait()
        return name

    runtime, _ = build([[call("meet", name=n) for n in "xyz"], "met"], meet)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).data == "met"
        assert await texts(thread, "tool") == ["x", "y", "z"]


async def test_unsafe_calls_run_one_at_a_time_in_order_and_see_what_came_before(build: Build) -> None:
    log: list[str] = []

    @tool
    async def step(name: str) -> None:
        log.append(f"+{name}")
        for _ in range(3):
            await asyncio.sleep(0)
        log.append(f"-{name}")

    @tool(safe=True)
    async def peek() -> list[str]:
        return list(log)

    calls = [call("step", name="a"), call("step", name="b"), call("peek"), call("step", name="c")]
    runtime, _ = build([calls, "done"], step, peek)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(PATIENCE)
        assert log == ["+a", "-a", "+b", "-b", "+c", "-c"]
        assert (await texts(thread, "tool"))[2] == '["+a","-a","+b","-b"]'


async def test_a_sync_tool_runs_off_the_event_loop(build: Build) -> None:
    here = threading.get_ident()

    @tool
    def where() -> bool:
        return threading.get_ident() == here

    runtime, _ = build([call("where"), "done"], where)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(PATIENCE)
        assert await texts(thread, "tool") == ["false"]


@pytest.mark.parametrize("stubborn", [False, True], ids=["async", "sync"])
async def test_a_call_that_takes_too_long_fails_alone(build: Build, stubborn: bool) -> None:
    release = threading.Event()

    @tool(timeout=0.02, name="slow")
    async def slow_async() -> None:
        await asyncio.Event().wait()

    @tool(timeout=0.02, name="slow")
    def slow_sync() -> None:
        release.wait(PATIENCE)

    runtime, _ = build([[call("slow"), call("shout", word="a")], "done"], slow_sync if stubborn else slow_async, shout)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).status == "completed"
        assert await texts(thread, "tool") == ["Error: timeout: slow did not end within 0.02 s", "A"]
    release.set()


async def test_whatever_a_tool_does_wrong_is_its_result_and_the_run_goes_on(build: Build) -> None:
    @tool
    async def bad(how: str) -> object:
        match how:
            case "raise":
                raise RuntimeError("broken")
            case "explain":
                raise ToolError("no such order", kind="unavailable")
            case "cancel":
                raise asyncio.CancelledError
            case "exit":
                raise SystemExit(3)
            case _:
                return object()

    ways = ["raise", "explain", "cancel", "unserialisable", "exit"]
    calls = [*(call("bad", how=how) for how in ways), call("bad"), call("unknown"), call("bad", how=1, x=2)]
    runtime, _ = build([calls, "done"], bad)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).data == "done"
        results = await texts(thread, "tool")
        assert results[0] == "Error: execution: RuntimeError: broken"
        assert results[1] == "Error: unavailable: no such order"
        assert results[2] == "Error: execution: CancelledError: "
        assert results[3].startswith("Error: execution: bad returned what JSON cannot say")
        assert results[4] == "Error: execution: SystemExit: 3"
        assert results[5].startswith("Error: invalid_request: wrong arguments for bad: how: Field required")
        assert results[6] == "Error: invalid_request: no tool is named 'unknown'; there are: bad"
        assert "there is no argument x" in results[7]
        ended = [e for e in await kinds(thread) if e in ("tool.output", "tool.error")]
        assert ended == ["tool.error"] * 8


async def test_results_of_any_json_kind_reach_the_model_and_long_ones_are_cut(build: Build) -> None:
    @tool
    async def give(what: str) -> object:
        return {"none": None, "dict": {"a": [1, 2.5]}, "model": Usage(input=1), "long": "x" * 100_010}[what]

    calls = [call("give", what=what) for what in ("none", "dict", "model", "long")]
    runtime, _ = build([calls, "done"], give)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(PATIENCE)
        none, a_dict, model, long = await texts(thread, "tool")
        assert (none, a_dict) == ("", '{"a":[1,2.5]}')
        assert model.startswith('{"input":1')
        assert long.endswith("(10 more characters were cut)")


async def test_a_tool_can_end_the_run(build: Build) -> None:
    @tool
    async def end(how: str) -> object:
        ends = {"finish": Finish(value={"n": 1}), "fail": Fail(message="gave up"), "handoff": Handoff(thread_id="t2")}
        return ends[how]

    def script(request: ModelRequest) -> Line:
        return call("end", how=request.messages[-1].content)

    runtime, _ = build(script, end)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        results = []
        for how in ("finish", "fail", "handoff"):
            await thread.invoke(how)
            results.append(await thread.wait(PATIENCE))
        assert [(r.status, r.data) for r in results] == [
            ("completed", {"n": 1}),
            ("error", None),
            ("completed", {"handoff": "t2"}),
        ]
        assert results[1].errors[0].code == "ERR_TOOL_FAILURE"


async def test_a_tool_that_asks_for_it_is_retried_with_the_same_key(build: Build) -> None:
    seen: list[tuple[int, str]] = []

    @tool(retry=RetryPolicy(attempts=3, base_delay=0.001))
    async def flaky(ctx: ToolContext) -> str:
        seen.append((ctx.attempt, ctx.idempotency_key))
        raise ToolError("busy", retry=True)

    runtime, _ = build([call("flaky", call_id="c"), "gave up"], flaky)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).data == "gave up"
        assert [attempt for attempt, _ in seen] == [1, 2, 3]
        assert len({key for _, key in seen}) == 1
        assert await texts(thread, "tool") == ["Error: execution: busy (after 3 attempts)"]


async def test_a_message_during_a_run_joins_it_at_its_next_step(build: Build) -> None:
    running, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def wait_here() -> str:
        running.set()
        await go_on.wait()
        return "waited"

    runtime, model = build([call("wait_here"), "both answered"], wait_here)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        first = await thread.invoke("one")
        await running.wait()
        second = await thread.invoke("two")
        assert second == first
        go_on.set()
        await thread.wait(PATIENCE)
        assert [m.content for m in model.requests[1].messages] == ["one", "", "waited", "two"]
        assert thread.run_state().run_id == first.run_id


async def test_a_message_that_comes_during_the_last_reply_gets_an_answer_in_the_same_run(build: Build) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def script(request: ModelRequest) -> Line:
        if request.messages[-1].content == "one":
            asked.set()
            await go_on.wait()
        return f"answer to {request.messages[-1].content}"

    runtime, _ = build(script)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("one")
        await asked.wait()
        await thread.invoke("two")
        go_on.set()
        result = await thread.wait(PATIENCE)
        assert (result.data, result.meta.turns) == ("answer to two", 2)
        assert await texts(thread, "assistant") == ["answer to one", "answer to two"]


async def test_an_idempotency_key_is_honoured_for_ever(build: Build) -> None:
    runtime, model = build(["one", "two"])
    async with runtime:
        thread = await runtime.create_thread("clerk")
        first = await thread.invoke("a", idempotency_key="k")
        await thread.wait(PATIENCE)
        assert await thread.invoke("a", idempotency_key="k") == first
    async with runtime:
        again = await runtime.thread(thread.id)
        assert await again.invoke("a", idempotency_key="k") == first
        assert len(model.requests) == 1
        assert (await again.invoke("b", idempotency_key="l")).run_id == f"{thread.id}.2"


async def test_cancel_reaches_a_model_call(build: Build) -> None:
    asked, stopped = asyncio.Event(), asyncio.Event()

    async def script(request: ModelRequest) -> Line:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        raise AssertionError

    runtime, _ = build(script)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await asked.wait()
        await thread.cancel()
        assert stopped.is_set()
        result = thread.run()
        assert (result.status, result.errors[0].code) == ("canceled", "ERR_CANCELED")
        assert (await kinds(thread))[-1] == "run.canceled"


async def test_cancel_reaches_running_tools_keeps_what_had_ended_and_leaves_no_call_without_a_result(
    build: Build,
) -> None:
    stopped: list[str] = []

    @tool(safe=True)
    async def hang(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(name)

    calls = [call("shout", word="kept", call_id="c0"), *(call("hang", name=n, call_id=n) for n in "ab")]
    runtime, _ = build([[*calls, call("later", call_id="c3")], "again"], shout, hang)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await until(thread, EventType.TOOL_OUTPUT, callId="c0")
        await thread.cancel()
        assert sorted(stopped) == ["a", "b"]
        said = (await thread.state()).messages
        assert [(m.tool_call_id, m.content) for m in said if m.role == "tool"] == [
            ("c0", "KEPT"),
            ("a", "Canceled: the run was canceled."),
            ("b", "Canceled: the run was canceled."),
            ("c3", "Canceled: the run was canceled."),
        ]
        await thread.invoke("and now?")
        assert (await thread.wait(PATIENCE)).data == "again"


async def test_a_tool_that_ignores_cancellation_does_not_hold_up_the_cancel(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agency.thread.effect_loop.STOP_GRACE", 0.02)
    release = asyncio.Event()

    @tool
    async def stubborn() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    runtime, _ = build([call("stubborn", call_id="c")], stubborn)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await until(thread, EventType.TOOL_STARTED)
        await thread.cancel()
        assert thread.run().status == "canceled"
        seq = [e.seq async for e in thread.events(follow=False)][-1]
        release.set()
        await turns_of_the_loop()
        assert [e.seq async for e in thread.events(follow=False)][-1] == seq
        assert await texts(thread, "tool") == ["Canceled: the run was canceled."]


async def test_a_message_sent_to_a_run_that_is_then_canceled_stays_in_the_transcript(build: Build) -> None:
    @tool
    async def hang() -> None:
        await asyncio.Event().wait()

    runtime, _ = build([call("hang"), "ok"], hang)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("one")
        await until(thread, EventType.TOOL_STARTED)
        await thread.invoke("two")
        await thread.cancel()
        assert await texts(thread, "user") == ["one", "two"]


async def test_what_does_not_fit_the_state_is_refused_and_changes_nothing(build: Build) -> None:
    runtime, _ = build(["done"])
    async with runtime:
        thread = await runtime.create_thread("clerk")
        with pytest.raises(NotFound):
            thread.run()
        with pytest.raises(WrongState):
            await thread.cancel()
        with pytest.raises(WrongState):
            await thread.approve()
        with pytest.raises(WrongState):
            await thread.lift_limits(tokens=5)
        await thread.invoke("go")
        await thread.wait(PATIENCE)
        before = await kinds(thread)
        with pytest.raises(WrongState):
            await thread.cancel()
        with pytest.raises(WrongState):
            await thread.deny("no")
        assert await kinds(thread) == before
        assert thread.run().status == "completed"


@pytest.mark.parametrize(
    "message",
    ["", "  \n", "x" * 1_000_001, Message(role="tool", content="?")],
    ids=["empty", "blank", "long", "a result of no call"],
)
async def test_a_message_that_cannot_be_accepted_is_refused_and_changes_nothing(build: Build, message: Any) -> None:
    runtime, _ = build(["done"])
    async with runtime:
        thread = await runtime.create_thread("clerk")
        with pytest.raises(InvalidInput):
            await thread.invoke(message, idempotency_key="k")
        assert await kinds(thread) == ["thread.created"]
        await thread.invoke("fine", idempotency_key="k")
        assert (await thread.wait(PATIENCE)).data == "done"


async def test_used_up_turns_give_one_last_turn_without_tools(build: Build) -> None:
    def script(request: ModelRequest) -> Line:
        return "what I have" if request.params.tool_choice == "none" else call("shout", word="x")

    runtime, model = build(script, shout, limits={"turns": 2})
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        result = await thread.wait(PATIENCE)
        assert (result.status, result.data, result.meta.turns) == ("completed", "what I have", 3)
        assert [r.params.tool_choice for r in model.requests] == ["auto", "auto", "none"]


async def test_a_model_that_calls_tools_in_its_last_turn_waits_for_more_turns_and_gets_them(build: Build) -> None:
    runtime, _ = build(lambda request: call("shout", word="x"), shout, limits={"turns": 2})
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        result = await thread.wait(PATIENCE)
        assert (result.status, result.errors[0].code, result.meta.turns) == ("paused", "ERR_MAX_TURNS", 3)
        assert result.meta.tokens_used.total == 45
        assert (await texts(thread, "tool"))[-1].startswith("Error: resource_limit")
        await thread.lift_limits(turns=4)
        result = await thread.wait(PATIENCE)
        assert (result.meta.pause_reason, result.meta.turns) == ("exhausted", 5)
        assert (await texts(thread, "tool"))[-2] == "X"
        assert "You have been given more turns" in "".join(await texts(thread, "system"))


async def test_used_up_tokens_pause_the_run_until_a_person_lifts_the_limit(build: Build) -> None:
    runtime, _ = build([call("shout", word="a"), call("shout", word="b"), "done"], shout, limits={"tokens": 20})
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        result = await thread.wait(PATIENCE)
        assert (result.status, result.meta.pause_reason) == ("paused", "exhausted")
        assert result.errors[0].code == "ERR_TOKEN_LIMIT"
    async with runtime:
        again = await runtime.thread(thread.id)
        await again.lift_limits(tokens=1000)
        assert (await again.wait(PATIENCE)).data == "done"


async def test_used_up_time_interrupts_a_model_call_and_pauses_the_run(build: Build) -> None:
    lifted = asyncio.Event()

    async def script(request: ModelRequest) -> Line:
        await lifted.wait()
        return "done"

    runtime, _ = build(script)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go", limits=Limits(time_ms=100))
        result = await thread.wait(PATIENCE)
        assert (result.status, result.errors[0].code) == ("paused", "ERR_TIME_LIMIT")
        lifted.set()
        await thread.lift_limits(time_ms=60_000)
        assert (await thread.wait(PATIENCE)).data == "done"


async def test_a_model_that_fails_for_a_while_is_asked_again_with_the_same_request(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agency.turn.chain.RETRY", Backoff(0.001, 30.0))
    errors = iter([ModelError("busy", retryable=True, retry_after_ms=1)] * 2)
    runtime, model = build(lambda request: next(errors, "at last"))
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).data == "at last"
        assert [[m.content for m in r.messages] for r in model.requests] == [["go"]] * 3
        failed = [e.data async for e in thread.events(follow=False) if e.type == EventType.MODEL_COMPLETED]
        assert [set(data) for data in failed[:2]] == [{"runId", "model", "error", "retryAt"}] * 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ModelError("wrong key", model_code="ERR_AUTH"), "ERR_AUTH"),
        (ValueError("a bug in the provider"), "ERR_MODEL"),
        (asyncio.CancelledError(), "ERR_MODEL"),
        (SystemExit(1), "ERR_MODEL"),
    ],
)
async def test_a_model_that_fails_for_good_ends_the_run_with_its_code(
    build: Build, error: Exception, code: str
) -> None:
    runtime, _ = build(lambda request: error)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        result = await thread.wait(PATIENCE)
        assert (result.status, result.errors[0].code) == ("error", code)
        assert (await kinds(thread))[-1] == "agent.error"


async def test_a_provider_that_is_gone_when_the_file_is_opened_again_ends_the_run_and_says_which_there_are(
    build: Build, tmp_path: Path
) -> None:
    asked = asyncio.Event()

    async def script(request: ModelRequest) -> Line:
        asked.set()
        await asyncio.Event().wait()
        return "never"

    runtime, _ = build(script)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await asked.wait()
    async with LocalRuntime(AgentSystem("demo:instant"), tmp_path / "threads") as other:
        result = await (await other.thread(thread.id)).wait(PATIENCE)
        assert result.errors[0].code == "ERR_CONFIG"
        assert "no provider named 'scripted'" in result.errors[0].message


async def test_closing_in_the_middle_and_opening_the_file_again_goes_on(tmp_path: Path) -> None:
    asked = asyncio.Event()
    attempts = []

    async def script(request: ModelRequest) -> Line:
        attempts.append(request)
        if len(attempts) == 1:
            asked.set()
            await asyncio.Event().wait()
        return "done"

    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(script)})
    system.add_agent(name="clerk", description="d", prompt="p")
    path = tmp_path / "deep" / "clerk.db"
    async with open_thread(system, path, agent="clerk") as thread:
        await thread.invoke("go")
        await asked.wait()
    async with open_thread(system, path) as again:
        assert again.id == thread.id
        assert (await again.wait(PATIENCE)).data == "done"
    assert attempts[0] == attempts[1]
    async with open_thread(system, path, agent="clerk") as once_more:
        assert once_more.id == thread.id
    with pytest.raises(WrongState, match="closed"):
        await thread.invoke("to nobody")


async def test_a_call_in_doubt_follows_its_policy(build: Build) -> None:
    ran: list[str] = []
    running = asyncio.Event()

    def tool_with(policy: Any) -> Any:
        @tool(idempotent=False, in_doubt=policy, name=policy)
        async def once() -> str:
            ran.append(policy)
            if ran.count(policy) == 1:
                running.set()
                await asyncio.Event().wait()
            return "done"

        return once

    tools = [tool_with(policy) for policy in ("report", "ask", "rerun")]

    def script(request: ModelRequest) -> Line:
        last = request.messages[-1]
        return "end" if last.role == "tool" else call(last.content, call_id="c")

    ends = {}
    for policy in ("report", "ask", "rerun"):
        runtime, _ = build(script, *tools)
        running.clear()
        async with runtime:
            thread = await runtime.create_thread("clerk")
            await thread.invoke(policy)
            await running.wait()
        async with runtime:
            thread = await runtime.thread(thread.id)
            result = await thread.wait(PATIENCE)
            if policy == "ask":
                (pending,) = result.meta.pending_tool_calls
                assert pending.name == "ask"
                assert "may or may not have taken effect" in pending.note
                await thread.decide({pending.approval_id: Rerun()})
                result = await thread.wait(PATIENCE)
            assert result.data == "end"
            ends[policy] = (ran.count(policy), (await texts(thread, "tool"))[0])
    assert ends["report"][0] == 1
    assert "may or may not have taken effect" in ends["report"][1]
    assert ends["ask"] == (2, "done")
    assert ends["rerun"] == (2, "done")


async def test_an_overtaken_activation_stops_and_the_new_one_goes_on(build: Build) -> None:
    running, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def wait_here() -> str:
        running.set()
        await go_on.wait()
        return "waited"

    runtime, _ = build([call("wait_here"), "done"], wait_here)
    other, _ = build([call("wait_here"), "done"], wait_here)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await running.wait()
        async with other:
            usurper = await other.thread(thread.id)
            go_on.set()
            assert (await usurper.wait(PATIENCE)).data == "done"
            with pytest.raises(StaleActivation):
                await thread.wait(PATIENCE)
            with pytest.raises(StaleActivation):
                await thread.invoke("still there?")
            assert await texts(usurper, "tool") == ["waited"]


async def test_events_can_be_followed_from_any_seq_by_any_number_of_readers(build: Build) -> None:
    runtime, _ = build([call("shout", word="a"), "one two three"], shout)

    async def follow(thread: Thread, after: int) -> list[tuple[int | None, str]]:
        seen = []
        async for event in thread.events(after):
            seen.append((event.seq, str(event.data.get("delta", event.type.value))))
            if event.type == EventType.AGENT_COMPLETED:
                return seen
        raise AssertionError("closed too early")

    async with runtime:
        thread = await runtime.create_thread("clerk")
        readers = [asyncio.create_task(follow(thread, after)) for after in (0, 0, 3)]
        await thread.invoke("go")
        await thread.wait(PATIENCE)
        late = await asyncio.wait_for(follow(thread, 0), PATIENCE)
        first, second, third = await asyncio.wait_for(asyncio.gather(*readers), PATIENCE)
        stored = [seq for seq, _ in first if seq is not None]
        assert stored == list(range(1, stored[-1] + 1))
        assert first == second
        assert [entry for entry in first if entry[0] is None or entry[0] > 3] == third
        assert [entry for entry in first if entry[0] is not None] == [entry for entry in late if entry[0] is not None]
        assert "".join(text for seq, text in first if seq is None) == "one two three"


async def test_a_reader_that_comes_during_a_reply_gets_the_text_so_far_then_the_rest(tmp_path: Path) -> None:
    half, go_on = asyncio.Event(), asyncio.Event()

    class Halting:
        async def respond(self, request: ModelRequest, on_delta: Callable[[str], None]) -> ModelReply:
            for word in ("one ", "two "):
                on_delta(word)
            half.set()
            await go_on.wait()
            on_delta("three")
            return ModelReply(text="one two three", stop="stop")

    system = AgentSystem("halting:x", providers={"halting": Halting()})
    system.add_agent(name="clerk", description="d", prompt="p")
    async with open_thread(system, tmp_path / "a.db", agent="clerk") as thread:
        await thread.invoke("go")
        await half.wait()
        deltas: list[tuple[object, object]] = []
        async with asyncio.timeout(PATIENCE):
            async for event in thread.events():
                if event.type == EventType.MODEL_DELTA:
                    deltas.append((event.data["offset"], event.data["delta"]))
                    go_on.set()
                if event.type == EventType.MODEL_COMPLETED:
                    break
        assert deltas == [(0, "one two "), (8, "three")]


async def test_a_thread_of_an_unknown_agent_or_with_a_wrong_id_is_not_created(build: Build, tmp_path: Path) -> None:
    runtime, _ = build(["x"])
    async with runtime:
        with pytest.raises(NotFound, match="nobody"):
            await runtime.create_thread("nobody")
        with pytest.raises(InvalidInput, match="letters"):
            await runtime.create_thread("clerk", thread_id="../escape")
        await runtime.create_thread("clerk", thread_id="mine")
        with pytest.raises(InvalidInput, match="already"):
            await runtime.create_thread("clerk", thread_id="mine")
        with pytest.raises(NotFound):
            await runtime.thread("unknown")
        assert runtime.thread_ids() == ["mine"]


async def test_a_wrong_definition_shows_before_anything_is_created(tmp_path: Path) -> None:
    system = AgentSystem("demo:instant").add_agent(name="a", description="d", prompt="p", tags=["nothing"])
    with pytest.raises(DefinitionError, match="nothing"):
        async with open_thread(system, tmp_path / "a.db", agent="a"):
            pass
    assert not (tmp_path / "a.db").exists()


async def test_steps_do_not_read_the_history_again(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    query, stored_events = ThreadStore.query, ThreadStore.events

    def counted_query(store: ThreadStore, sql: str, *args: Any) -> Any:
        reads.append(sql)
        return query(store, sql, *args)

    def counted_events(store: ThreadStore, *args: Any) -> Any:
        reads.append("SELECT events")
        return stored_events(store, *args)

    monkeypatch.setattr(ThreadStore, "query", counted_query)
    monkeypatch.setattr(ThreadStore, "events", counted_events)
    runtime, _ = build([*[call("shout", word="x")] * 20, "done"], shout)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        reads.clear()
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).data == "done"
        history = [sql for sql in reads if sql.startswith("SELECT") and ("messages" in sql or "events" in sql)]
        assert len(history) == 1  # the transcript, once, when the model is first called


async def test_two_hundred_threads_run_at_once(build: Build) -> None:
    runtime, _ = build([call("shout", word="a"), "done"], shout)
    async with runtime:
        threads = [await runtime.create_thread("clerk") for _ in range(200)]
        for thread in threads:
            await thread.invoke("go")
        results = [await thread.wait(PATIENCE) for thread in threads]
        assert {result.data for result in results} == {"done"}


def test_a_hung_sync_tool_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    program = f"""
import asyncio, threading
from agency import AgentSystem, open_thread, tool
from agency.testing import ScriptedModel, call

@tool
def hang() -> None:
    threading.Event().wait()

async def main():
    model = ScriptedModel([call("hang")])
    system = AgentSystem("s:x", providers={{"s": model}}).add_tool(hang)
    system.add_agent(name="a", description="d", prompt="p")
    async with open_thread(system, {str(tmp_path / "a.db")!r}, agent="a") as thread:
        await thread.invoke("go")
        async for event in thread.events():
            if event.type.value == "tool.started":
                break

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


async def test_a_run_that_is_given_up_ends_as_an_error_with_a_result_for_every_call(build: Build) -> None:
    ran: list[str] = []

    @tool(safe=True)
    async def hang(word: str) -> str:
        ran.append(word)
        await asyncio.Event().wait()
        return word

    runtime, _ = build([[call("hang", word="a", call_id="a"), call("shout", word="b", call_id="b")]], hang, shout)
    async with runtime:
        thread = await runtime.create_thread("clerk", thread_id="poison")
        await thread.invoke("go")
        await until(thread, EventType.TOOL_OUTPUT, callId="b")
    system, path = runtime._system, runtime._path("poison")
    await park(path, system, Poisoned("it died too often"))
    assert ran == ["a"], "nothing of it was run for that"
    async with runtime:
        thread = await runtime.thread("poison")
        run = thread.run()
        assert (run.status, [error.code for error in run.errors]) == ("error", ["ERR_POISON"])
        assert sorted(await texts(thread, "tool")) == ["B", "Canceled: the run failed before this call had ended."]
        await park(path, system, Poisoned("again"))  # with nothing to give up, it changes nothing
        again = (await open_again(runtime, thread)).run()
        assert again == run.model_copy(update={"timestamp": again.timestamp})


async def open_again(runtime: LocalRuntime, thread: Thread) -> Thread:
    await thread.close()
    return await runtime.thread(thread.id)


async def test_a_decision_with_a_key_counts_once(build: Build) -> None:
    runtime, _ = build(
        [call("shout", word="hey", call_id="c1"), "done"],
        shout,
        tags=["default", "hitl"],
        config={"hitl": {"tools": ["shout"]}},
    )
    runtime._system.use(hitl)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).status == "paused"
        await thread.decide({"c1": Approve()}, idempotency_key="k")
        await thread.decide({"c1": Approve()}, idempotency_key="k")
        assert (await thread.wait(PATIENCE)).data == "done"
        await thread.decide({"c1": Approve()}, idempotency_key="k")
        with pytest.raises(KeyReused):
            await thread.decide({"c1": Deny(reason="no")}, idempotency_key="k")
        with pytest.raises(WrongState):
            await thread.approve(idempotency_key="other")


async def until_idle(thread: Thread) -> None:
    await eventually(lambda: thread.idle)


async def test_a_thread_is_idle_while_it_waits_for_a_timer_and_says_until_when(build: Build) -> None:
    @tool(retry=RetryPolicy(attempts=2))
    async def later(ctx: ToolContext) -> str:
        if ctx.attempt == 1:
            raise ToolError("not yet", retry_after_ms=60_000)
        return "now"

    runtime, _ = build([call("later")], later)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await until_idle(thread)
        before = thread.wake_at
        await thread.invoke("go")
        await until_idle(thread)
        due = thread.wake_at
        assert before is None
        assert due is not None
        assert 50_000 < due - now_ms() <= 60_000
