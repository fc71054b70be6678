"""A run that has failed is tried again from where it failed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agency import (
    AgentSystem,
    EventType,
    Fail,
    HookContext,
    KeyReused,
    Limits,
    LocalRuntime,
    Middleware,
    ModelError,
    ModelRequest,
    WrongState,
    tool,
)
from agency.testing import Line, ScriptedModel, call
from agency.turn.replies import FAILED_THEN

PATIENCE = 10.0
Build = Callable[..., tuple[LocalRuntime, ScriptedModel]]
BROKEN = ModelError("no credit", model_code="ERR_AUTH")


def lines(*said: Line) -> Callable[[ModelRequest], Line]:
    """One after the other, whatever is asked."""
    left = iter(said)
    return lambda request: next(left)


async def test_what_was_done_is_kept_and_the_model_call_that_failed_is_made_again(build: Build) -> None:
    ran: list[str] = []

    @tool
    async def note(word: str) -> str:
        """Note."""
        ran.append(word)
        return f"noted {word}"

    runtime, model = build(lines(call("note", word="a"), BROKEN, "done"), note)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go", limits=Limits(turns=7))
        failed = await thread.wait(PATIENCE)
        assert (failed.status, failed.errors[0].code) == ("error", "ERR_AUTH")
        accepted = await thread.retry(idempotency_key="again")
        assert (accepted.run_id, accepted.status) == (f"{thread.id}.2", "running")
        run = await thread.wait(PATIENCE)
        assert (run.status, run.data, run.meta.retry_of) == ("completed", "done", f"{thread.id}.1")
        assert ran == ["a"], "the call that had ended does not run again"
        assert model.requests[2].messages == model.requests[1].messages, "the same request again"
        assert await thread.retry(idempotency_key="again") == accepted
        with pytest.raises(KeyReused):
            await thread.retry(idempotency_key="again", limits=Limits(turns=1))
        with pytest.raises(WrongState, match="has not failed"):
            await thread.retry()
        told = [event async for event in thread.events(follow=False)]
        assert [e.data.get("retryOf") for e in told if e.type == EventType.REQUEST_ACCEPTED] == [None, f"{thread.id}.1"]
        assert [event.type for event in told].count(EventType.AGENT_ERROR) == 1


async def test_only_a_failed_run_can_be_tried_again(build: Build) -> None:
    runtime, _ = build(["hello"])
    async with runtime:
        thread = await runtime.create_thread("clerk")
        with pytest.raises(WrongState, match="has not run yet"):
            await thread.retry()


async def test_a_run_that_has_used_up_a_limit_is_not_retried_and_says_what_helps(build: Build) -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    runtime, _ = build([call("look"), call("look"), "done"], look)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go", limits=Limits(turns=1))
        assert (await thread.wait(PATIENCE)).meta.pause_reason == "exhausted"
        with pytest.raises(WrongState, match="used up a limit: lift it"):
            await thread.retry()


async def test_a_result_that_did_not_fit_is_sent_back_with_what_is_wrong(build: Build) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    runtime, model = build(lines("one", "two", "three", '{"n": 4}'), output_schema=schema)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("how many?")
        assert (await thread.wait(PATIENCE)).status == "error"
        await thread.retry()
        assert (await thread.wait(PATIENCE)).data == {"n": 4}
        assert model.requests[-1].messages[-1].content.startswith("This is not the result that was asked for")


async def test_new_limits_take_the_place_of_those_of_the_run_that_failed(build: Build) -> None:
    @tool
    async def give_up() -> Fail:
        """Give up."""
        return Fail("not today")

    runtime, _ = build([call("give_up"), "well then"], give_up)
    async with runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).errors[0].code == "ERR_TOOL_FAILURE"
        await thread.retry(limits=Limits(turns=1))
        run = await thread.wait(PATIENCE)
        assert (run.data, run.meta.turns) == ("well then", 1)


async def test_a_model_that_has_had_the_last_word_is_told_why_it_is_asked_again(tmp_path: Path) -> None:
    class Strict(Middleware[None]):
        name = "strict"

        async def on_turn_end(self, ctx: HookContext[None]) -> Fail | None:
            return Fail("not like this") if ctx.run_id and ctx.run_id.endswith(".1") else None

    model = ScriptedModel(lines("a", "b"))
    system = AgentSystem("scripted:any", providers={"scripted": model}).use(Strict(), tags=["default"])
    system.add_agent(name="clerk", description="d", prompt="p")
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        assert (await thread.wait(PATIENCE)).errors[0].code == "ERR_STOPPED"
        await thread.retry()
        assert (await thread.wait(PATIENCE)).data == "b"
        assert model.requests[1].messages[-1].content == FAILED_THEN.format(code="ERR_STOPPED")


async def test_a_parent_hears_of_a_child_once(tmp_path: Path) -> None:
    tried: list[str] = []

    def line(request: ModelRequest) -> Line:
        if request.system.startswith("child"):
            tried.append("child")
            return BROKEN if len(tried) == 1 else "it works now"
        if request.messages[-1].role == "tool":
            return f"heard: {request.messages[-1].content}"
        return call("task", description="do it", subagentType="child")

    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(line)}).defaults()
    system.add_agent(name="boss", description="d", prompt="boss").add_agent(
        name="child", description="d", prompt="child"
    )
    async with LocalRuntime(system, tmp_path) as runtime:
        boss = await runtime.create_thread("boss")
        await boss.invoke("go")
        assert "ERR_AUTH" in str((await boss.wait(PATIENCE)).data)
        (child_id,) = [each for each in runtime.thread_ids() if each != boss.id]
        child = await runtime.thread(child_id)
        await child.retry()
        assert (await child.wait(PATIENCE)).data == "it works now"
        await child.rest()
        told = [event.type async for event in boss.events(follow=False)]
        assert told.count(EventType.SUBAGENT_COMPLETED) == 1
        assert (boss.run_state().run_id, boss.run_state().status) == (f"{boss.id}.1", "completed")


async def test_a_retry_that_a_fork_cuts_ends_there_and_the_fork_has_used_nothing(build: Build) -> None:
    runtime, _ = build(lines(BROKEN, "done", "and on"))
    async with runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        await thread.invoke("go")
        await thread.wait(PATIENCE)
        await thread.retry()
        assert (await thread.wait(PATIENCE)).meta.tokens_used.total > 0
        told = [event async for event in thread.events(follow=False)]
        begun = [event.seq for event in told if event.type == EventType.RUN_STARTED][-1]
        for after in (begun, told[-1].seq):
            fork = await runtime.fork("t", after_seq=after)
            assert (fork.run().run_id, fork.run().meta.tokens_used.total) == (f"{fork.id}.2", 0)
        assert fork.run().status == "completed"
        await fork.invoke("and then?")
        run = await fork.wait(PATIENCE)
        assert (run.run_id, run.data, run.meta.tokens_used.total) == (f"{fork.id}.3", "and on", 15)
