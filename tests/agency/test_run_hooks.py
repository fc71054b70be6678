"""The hooks of hosts: a gate before each tool, a word after each turn, the beginning and the end of each run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agency import (
    AgentSystem,
    Ask,
    CallTool,
    CodeResult,
    Deny,
    EventType,
    Fail,
    Finish,
    HookContext,
    LocalRuntime,
    Middleware,
    ModelError,
    RunEnd,
    Thread,
    ThreadMetadata,
    ToolCall,
    tool,
)
from agency.spending import Spent
from agency.testing import Line, ScriptedModel, call
from tests.support.thread_files import kept
from tests.support.waiting import eventually, turns_of_the_loop

PATIENCE = 10.0


class Watch(Middleware):
    """Keeps what it was told, and says what it is told to say."""

    name = "watch"

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.ends: list[RunEnd] = []
        self.gates: dict[str, Deny | Ask] = {}
        self.turn_end: Callable[[int], Finish | Fail | None] = lambda turn: None
        self.turns = 0
        self.fails: str | None = None
        self.waits: asyncio.Event | None = None
        self.reached = asyncio.Event()

    async def _told(self, ctx: HookContext, hook: str) -> None:
        self.seen.append(f"{hook} {ctx.run_id}")
        ctx.store.put("watch", hook, (ctx.store.get("watch", hook) or 0) + 1)  # type: ignore[operator]  # a number
        if self.fails == hook:
            raise RuntimeError(f"{hook} is out of order")
        if self.waits is not None and hook == "on_run_start":
            self.reached.set()
            await self.waits.wait()

    async def on_run_start(self, ctx: HookContext) -> None:
        await self._told(ctx, "on_run_start")

    async def on_run_end(self, ctx: HookContext, run: RunEnd) -> None:
        self.ends.append(run)
        await self._told(ctx, "on_run_end")

    async def on_turn_end(self, ctx: HookContext) -> Finish | Fail | None:
        await self._told(ctx, "on_turn_end")
        self.turns += 1
        return self.turn_end(self.turns)

    async def gate_tool(self, ctx: HookContext, call: ToolCall) -> Deny | Ask | None:
        await self._told(ctx, "gate_tool")
        return self.gates.get(call.id)


class House:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.watch = Watch()
        self.ran: list[str] = []
        self.budget: str | None = None

    def runtime(self, lines: Any, *more: Middleware, **agent: Any) -> LocalRuntime:
        house = self

        class Budgeted(LocalRuntime):
            def budgeted(self) -> bool:
                return True

            async def allowance(self, thread: ThreadMetadata, spent: Spent) -> str | None:
                return house.budget

        @tool
        async def work(what: str) -> str:
            self.ran.append(what)
            return f"did {what}"

        @tool
        async def hang() -> str:
            await asyncio.Event().wait()
            return "never"

        system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(lines)})
        for each in (self.watch, *more):
            system.use(each, tags=["default"])
        system.add_tool(work).add_tool(hang)
        system.add_agent(name="clerk", description="", prompt="clerk", **agent)
        return Budgeted(system, self.folder)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def work(what: str) -> ToolCall:
    return call("work", what=what, call_id=what)


async def started(runtime: LocalRuntime) -> Thread:
    thread = await runtime.create_thread("clerk", thread_id="clerk")
    await thread.invoke("go")
    return thread


async def results(thread: Thread) -> dict[str | None, str]:
    return {m.tool_call_id: m.content for m in (await thread.state()).messages if m.role == "tool"}


def told(house: House, hook: str) -> Any:
    """How often a hook has written, as the file has it."""
    return kept(house.folder / "clerk.db", "watch").get(hook)


async def told_of_end(house: House, times: int = 1) -> None:
    await eventually(lambda: told(house, "on_run_end") == times)


# The gate.


async def test_a_gate_refuses_a_call_the_model_is_told_and_the_rest_runs(house: House) -> None:
    house.watch.gates["b"] = Deny(reason="not on Sundays")
    async with house.runtime([[work("a"), work("b"), work("c")], "done"]) as runtime:
        thread = await started(runtime)
        assert (await thread.wait(PATIENCE)).data == "done"
        refusal = "Error: permission_denied: watch refused this call, it was not run: not on Sundays"
        assert await results(thread) == {"a": "did a", "b": refusal, "c": "did c"}
        assert house.ran == ["a", "c"]
        (error,) = [e async for e in thread.events(follow=False) if e.type == EventType.TOOL_ERROR]
        assert (error.data["callId"], error.data["kind"]) == ("b", "permission_denied")


async def test_a_gate_has_a_person_asked_and_nothing_of_the_batch_has_run(house: House) -> None:
    house.watch.gates["b"] = Ask(risk="medium", note="are you sure?")
    async with house.runtime([[work("a"), work("b")], "done"]) as runtime:
        thread = await started(runtime)
        (asked,) = (await thread.wait(PATIENCE)).meta.pending_tool_calls
        assert (asked.id, asked.risk, asked.note, house.ran) == ("b", "medium", "are you sure?", [])
        await thread.approve()
        assert (await thread.wait(PATIENCE)).data == "done"
        assert house.ran == ["a", "b"]


async def test_a_gate_may_refuse_one_call_and_ask_about_another_of_the_same_batch(house: House) -> None:
    house.watch.gates = {"a": Deny(), "b": Ask()}
    async with house.runtime([[work("a"), work("b")], "done"]) as runtime:
        thread = await started(runtime)
        assert [p.id for p in (await thread.wait(PATIENCE)).meta.pending_tool_calls] == ["b"]
        await thread.deny()
        assert (await thread.wait(PATIENCE)).data == "done"
        assert (house.ran, list(await results(thread))) == ([], ["a", "b"])


async def test_of_two_gates_a_refusal_counts_over_a_question(house: House) -> None:
    class Strict(Middleware):
        name = "strict"

        async def gate_tool(self, ctx: HookContext, call: ToolCall) -> Deny | Ask | None:
            return Deny(reason="never")

    house.watch.gates = {"a": Ask()}
    async with house.runtime([work("a"), "done"], Strict()) as runtime:
        thread = await started(runtime)
        assert (await thread.wait(PATIENCE)).data == "done"
        assert (await results(thread))["a"].endswith("strict refused this call, it was not run: never")


@pytest.mark.parametrize("gate", [Deny(reason="no"), Ask()])
async def test_a_gate_stands_before_calls_that_code_makes(gate: Deny | Ask, tmp_path: Path) -> None:
    ran: list[str] = []
    watch = Watch()

    @tool
    async def work(what: str) -> str:
        ran.append(what)
        return "did"

    class Gated(Watch):
        async def gate_tool(self, ctx: HookContext, call: ToolCall) -> Deny | Ask | None:
            return gate

    watch = Gated()

    class Runner:
        async def run(self, code: str, state: Any, call_tool: CallTool) -> CodeResult:
            return CodeResult(output=(await call_tool("work", {"what": "a"})).text)

    model = ScriptedModel(["```python\nwork()\n```", "done"])
    system = AgentSystem("scripted:any", providers={"scripted": model}, code_runner=Runner())
    system.use(watch, tags=["default"]).add_tool(work)
    system.add_agent(name="coder", description="", prompt="code", mode="code")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("coder")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).data == "done"
        assert ran == []
        assert "permission_denied" in model.requests[-1].messages[-1].content


# After a turn.


@pytest.mark.parametrize("turn", [1, 2])
async def test_a_word_after_a_turn_ends_the_run_there_with_a_value(turn: int, house: House) -> None:
    house.watch.turn_end = lambda n: Finish(value={"at": n}) if n == turn else None
    async with house.runtime([work("a"), work("b"), "never said"]) as runtime:
        thread = await started(runtime)
        run = await thread.wait(PATIENCE)
        assert (run.status, run.data, house.ran) == ("completed", {"at": turn}, ["a", "b"][:turn])
        assert len(await results(thread)) == turn


async def test_a_word_after_a_turn_may_end_the_run_as_an_error_under_its_name(house: House) -> None:
    house.watch.turn_end = lambda n: Fail(message="that is enough")
    async with house.runtime([work("a"), "never said", "next"]) as runtime:
        thread = await started(runtime)
        run = await thread.wait(PATIENCE)
        assert (run.status, run.errors[0].code, run.errors[0].message) == (
            "error",
            "ERR_STOPPED",
            "watch: that is enough",
        )
        house.watch.turn_end = lambda n: None
        await thread.invoke("again")
        assert (await thread.wait(PATIENCE)).data == "never said"


async def test_the_answer_is_a_turn_too(house: House) -> None:
    house.watch.turn_end = lambda n: Finish(value="better") if n == 2 else None
    async with house.runtime([work("a"), "good"]) as runtime:
        thread = await started(runtime)
        assert (await thread.wait(PATIENCE)).data == "better"
        assert [m.content for m in (await thread.state()).messages][-1] == "good"


# The beginning.


async def test_the_beginning_of_a_run_is_told_once_per_run(house: House) -> None:
    async with house.runtime([work("a"), "one", "two"]) as runtime:
        thread = await started(runtime)
        await thread.wait(PATIENCE)
        await thread.invoke("again")
        await thread.wait(PATIENCE)
        starts = [seen for seen in house.watch.seen if seen.startswith("on_run_start")]
        assert starts == ["on_run_start clerk.1", "on_run_start clerk.2"]
        assert told(house, "on_run_start") == 2


async def test_the_beginning_is_told_though_the_agencys_budget_was_used_up_then(house: House) -> None:
    house.budget = "ERR_AGENCY_COST"
    async with house.runtime(["done"]) as runtime:
        thread = await started(runtime)
        assert (await thread.wait(PATIENCE)).meta.pause_reason == "exhausted"
        assert house.watch.seen == []
        house.budget = None
        await thread.budget_lifted()
        assert (await thread.wait(PATIENCE)).data == "done"
        assert told(house, "on_run_start") == 1


async def test_a_beginning_that_was_interrupted_is_told_again_and_kept_once(house: House) -> None:
    house.watch.waits = asyncio.Event()
    async with house.runtime(lambda r: f"to {r.messages[-1].content}") as runtime, asyncio.timeout(PATIENCE):
        thread = await started(runtime)
        await house.watch.reached.wait()
        house.watch.waits.set()
        await thread.invoke("this first", when="now")
        assert (await thread.wait(PATIENCE)).data == "to this first"
        assert told(house, "on_run_start") == 1


async def test_a_beginning_that_was_cut_short_by_a_crash_is_told_again_and_kept_once(house: House) -> None:
    house.watch.waits = asyncio.Event()
    async with house.runtime(["done"]) as runtime:
        await started(runtime)
        await house.watch.reached.wait()
    house.watch.waits = None
    async with house.runtime(["done"]) as runtime:
        thread = await runtime.thread("clerk")
        assert (await thread.wait(PATIENCE)).data == "done"
        assert told(house, "on_run_start") == 1


# The end.


@pytest.mark.parametrize(
    ("lines", "status", "code"),
    [
        (["done"], "completed", None),
        ([ModelError("no key", model_code="ERR_AUTH")], "error", "ERR_AUTH"),
        ([call("hang", call_id="h")], "canceled", "ERR_CANCELED"),
    ],
)
async def test_the_end_of_a_run_is_told_however_it_ends(
    lines: list[Line], status: str, code: str | None, house: House
) -> None:
    async with house.runtime(lines) as runtime:
        thread = await started(runtime)
        if status == "canceled":
            async for event in thread.events():
                if event.type == EventType.TOOL_STARTED:
                    break
            await thread.cancel()
        await thread.wait(PATIENCE)
        await told_of_end(house)
        (end,) = house.watch.ends
        assert (end.run_id, end.status, end.code) == ("clerk.1", status, code)
        assert end.result == ("done" if status == "completed" else None)


async def test_an_end_that_was_cut_short_is_told_again_when_the_thread_is_woken(house: House) -> None:
    class Cut(Watch):
        async def on_run_end(self, ctx: HookContext, run: RunEnd) -> None:
            self.ends.append(run)
            self.reached.set()
            await asyncio.Event().wait()

    cut = house.watch = Cut()
    async with house.runtime(["done"]) as runtime:
        await started(runtime)
        await cut.reached.wait()
    house.watch = Watch()
    async with house.runtime(["done"]) as runtime, asyncio.timeout(PATIENCE):
        await eventually(lambda: house.watch.ends)  # entering the runtime wakes it: no caller asks for the thread
        await runtime.thread("clerk")
        await told_of_end(house)
        assert [end.run_id for end in (*cut.ends, *house.watch.ends)] == ["clerk.1", "clerk.1"]
    async with house.runtime(["done"]) as runtime:
        await runtime.thread("clerk")
        await turns_of_the_loop()
        assert len(house.watch.ends) == 1


async def test_closing_does_not_leave_an_end_being_told_behind(house: House) -> None:
    stopped = asyncio.Event()

    class Slow(Watch):
        async def on_run_end(self, ctx: HookContext, run: RunEnd) -> None:
            self.reached.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

    slow = house.watch = Slow()
    async with house.runtime(["done"]) as runtime:
        await started(runtime)
        await slow.reached.wait()
    async with asyncio.timeout(PATIENCE):
        await stopped.wait()


async def test_an_end_that_fails_to_be_told_is_logged_by_name_and_changes_nothing(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.watch.fails = "on_run_end"
    with caplog.at_level(logging.WARNING, logger="agency.thread.pipeline"):
        async with house.runtime(["done", "again"]) as runtime:
            thread = await started(runtime)
            assert (await thread.wait(PATIENCE)).data == "done"
            await thread.invoke("more")
            assert (await thread.wait(PATIENCE)).data == "again"
            await eventually(lambda: len(house.watch.ends) == 2 and thread.idle)
            assert told(house, "on_run_end") is None
    assert [r.getMessage() for r in caplog.records if "on_run_end" in r.getMessage()] != []
    assert all("watch" in r.getMessage() for r in caplog.records)


# Hooks that fail.


@pytest.mark.parametrize("hook", ["on_run_start", "on_turn_end", "gate_tool"])
async def test_a_hook_that_fails_ends_the_run_under_its_own_name_and_keeps_nothing(hook: str, house: House) -> None:
    house.watch.fails = hook
    async with house.runtime([work("a"), "done"]) as runtime:
        thread = await started(runtime)
        run = await thread.wait(PATIENCE)
        assert (run.status, run.errors[0].code) == ("error", "ERR_HOOK")
        assert f"watch.{hook}" in run.errors[0].message.replace("'", "") or hook in run.errors[0].message
        assert told(house, hook) is None
        calls = [c.id for m in (await thread.state()).messages for c in m.tool_calls]
        assert list(await results(thread)) == calls
        assert house.ran == (["a"] if hook == "on_turn_end" else [])
