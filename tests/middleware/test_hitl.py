"""A person stands before the listed tools: nothing of a batch runs before the answer, and a denied tool never runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pydantic import JsonValue

from agency import (
    AgentSystem,
    Approve,
    ApproveResult,
    CallTool,
    CodeResult,
    DefinitionError,
    Deny,
    Edit,
    EventType,
    HookContext,
    InvalidInput,
    LocalRuntime,
    Middleware,
    WrongState,
    tool,
)
from agency.testing import ScriptedModel, call
from middleware import hitl
from tests.support.approvals import FIVE, LOOK, SEVEN, Shop, ended, events, pending, results, snapshot


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


# Asking.


async def test_the_run_pauses_before_a_listed_tool_and_nothing_of_its_batch_has_run(shop: Shop) -> None:
    async with shop.waiting([LOOK, FIVE]) as thread:
        assert shop.ran == []
        (pending,) = thread.run().meta.pending_tool_calls
        assert (pending.id, pending.name, pending.args, pending.risk) == (FIVE.id, FIVE.name, FIVE.args, "high")
        (asked,) = await events(thread, EventType.HITL_INTERRUPT)
        assert asked.data["proposedToolCalls"] == [{"toolName": "refund", "callId": "five", "args": {"cents": 5}}]
        (paused,) = await events(thread, EventType.RUN_PAUSED)
        assert paused.data["reason"] == "hitl"
        assert await events(thread, EventType.TOOL_STARTED) == []


async def test_a_batch_without_listed_tools_runs_without_asking(shop: Shop) -> None:
    async with shop.open(LOOK, "done") as thread:
        await thread.invoke("go")
        assert await ended(thread) == "done"
        assert shop.ran == ["look order"]
        assert await events(thread, EventType.HITL_INTERRUPT, EventType.RUN_PAUSED) == []


async def test_what_is_not_listed_is_asked_about_by_its_risk(shop: Shop) -> None:
    async with shop.open([LOOK, FIVE], "done", guarded=()) as thread:
        await thread.invoke("go")
        assert (await thread.wait(timeout=5)).meta.pause_reason == "hitl"
        assert (shop.ran, pending(thread)) == ([], ["five"])
        await thread.approve()
        assert await ended(thread) == "done"
        assert shop.ran == ["look order", "refund 5"]


async def test_each_batch_is_asked_about_anew(shop: Shop) -> None:
    async with shop.waiting(FIVE, SEVEN) as thread:
        await thread.approve()
        assert (await thread.wait(timeout=5)).meta.pause_reason == "hitl"
        assert (shop.ran, pending(thread)) == (["refund 5"], ["seven"])
        await thread.approve()
        assert await ended(thread) == "done"
        assert shop.ran == ["refund 5", "refund 7"]


async def test_a_message_that_comes_while_a_person_is_asked_joins_after_the_answer(shop: Shop) -> None:
    async with shop.waiting(FIVE) as thread:
        await thread.invoke("hurry up")
        assert (shop.ran, pending(thread)) == ([], ["five"])
        await thread.approve()
        assert await ended(thread) == "done"
        assert [m.role for m in (await thread.state()).messages] == ["user", "assistant", "tool", "user", "assistant"]


async def test_a_misspelt_tool_is_refused_where_the_agent_is_defined(shop: Shop) -> None:
    with pytest.raises(DefinitionError, match=r"agent 'clerk': config.hitl names tools .*'refnud'.*; it has look, ref"):
        async with shop.open(FIVE, "done", guarded=["refund", "refnud"]):
            pass
    assert shop.model.requests == []


class LateTools(Middleware):
    """Its tools are not known before a thread is open."""

    name = "late"
    tags = ("default",)

    async def on_thread_open(self, ctx: HookContext) -> None:
        """There are none today."""


async def test_a_misspelt_tool_that_might_come_later_ends_the_run_before_the_model_is_called(shop: Shop) -> None:
    async with shop.open(FIVE, "done", guarded=["refund", "refnud"], middleware=[LateTools()]) as thread:
        await thread.invoke("go")
        run = await thread.wait(timeout=5)
        assert run.status == "error"
        (error,) = run.errors
        assert error.code == "ERR_HOOK"
        assert "'hitl'" in error.message
        assert "['refnud']" in error.message
        assert (shop.model.requests, shop.ran) == ([], [])


# Approving.


async def test_approval_lets_the_whole_batch_run_in_order(shop: Shop) -> None:
    async with shop.waiting([LOOK, FIVE, SEVEN]) as thread:
        await thread.approve()
        assert await ended(thread) == "done"
        assert shop.ran == ["look order", "refund 5", "refund 7"]
        assert await results(thread) == {"look": "saw order", "five": "refunded 5", "seven": "refunded 7"}
        (resumed,) = await events(thread, EventType.HITL_RESUME)
        assert resumed.data["approved"] is True
        assert resumed.data["decisions"] == {"five": "approve", "seven": "approve"}
        assert len(await events(thread, EventType.RUN_RESUMED)) == 1


async def test_part_of_the_answers_waits_for_the_rest(shop: Shop) -> None:
    async with shop.waiting([LOOK, FIVE, SEVEN]) as thread:
        await thread.decide({"seven": Approve()})
        assert (shop.ran, pending(thread), thread.run_state().reason) == ([], ["five"], "hitl")
        await thread.decide({"five": Deny(reason="too much")})
        assert await ended(thread) == "done"
        assert shop.ran == ["look order", "refund 7"]
        assert len(await events(thread, EventType.HITL_RESUME)) == 2


async def test_a_second_approval_is_refused_and_changes_nothing(shop: Shop) -> None:
    async with shop.waiting(FIVE) as thread:
        await thread.approve()
        with pytest.raises(WrongState, match="waits for a person"):
            await thread.approve()
        assert await ended(thread) == "done"
        after = await snapshot(thread)
        with pytest.raises(WrongState, match="waits for a person"):
            await thread.decide({"five": Approve()})
        assert await snapshot(thread) == after
        assert shop.ran == ["refund 5"]


async def test_of_two_answers_at_once_one_counts_and_the_other_is_refused(shop: Shop) -> None:
    async with shop.waiting(FIVE) as thread:
        answers = await asyncio.gather(thread.approve(), thread.deny("no"), return_exceptions=True)
        assert await ended(thread) == "done"
        assert [type(answer) for answer in answers] == [ApproveResult, WrongState]
        assert shop.ran == ["refund 5"]


async def test_an_answer_already_given_cannot_be_changed(shop: Shop) -> None:
    async with shop.waiting([FIVE, SEVEN]) as thread:
        await thread.decide({"five": Deny()})
        before = await snapshot(thread)
        with pytest.raises(InvalidInput, match="five"):
            await thread.decide({"five": Approve()})
        assert await snapshot(thread) == before


async def test_approval_is_refused_when_nothing_waits(shop: Shop) -> None:
    async with shop.open("done") as thread:
        for answer in (thread.approve(), thread.deny(), thread.decide({"five": Approve()})):
            with pytest.raises(WrongState, match="no call of thread clerk waits for a person"):
                await answer
        await thread.invoke("go")
        assert await ended(thread) == "done"
        with pytest.raises(WrongState):
            await thread.approve()


async def test_approval_is_refused_while_a_tool_runs_that_needs_none(tmp_path: Path) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        started.set()
        await go_on.wait()
        return "slow"

    system = (
        AgentSystem("scripted:any", providers={"scripted": ScriptedModel([call("slow", call_id="slow"), "done"])})
        .use(hitl, tags=["default"])
        .add_tool(slow)
        .add_agent(name="clerk", description="", prompt="clerk")
    )
    async with LocalRuntime(system, tmp_path) as runtime, asyncio.timeout(10):
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await started.wait()
        for decision in (thread.approve(), thread.deny(), thread.decide({"slow": Approve()})):
            with pytest.raises(WrongState):
                await decision
        go_on.set()
        assert await ended(thread) == "done"
        assert await results(thread) == {"slow": "slow"}


@pytest.mark.parametrize("decisions", [["nobody"], ["look"], ["five", "nobody"], []])
async def test_an_answer_to_a_call_that_does_not_wait_is_refused_and_changes_nothing(
    decisions: list[str], shop: Shop
) -> None:
    async with shop.waiting([LOOK, FIVE]) as thread:
        before = await snapshot(thread)
        with pytest.raises(InvalidInput):
            await thread.decide(dict.fromkeys(decisions, Approve()))
        assert await snapshot(thread) == before
        await thread.approve()
        assert await ended(thread) == "done"


# Editing.


async def test_an_edited_call_runs_with_the_persons_arguments_and_the_model_is_told(shop: Shop) -> None:
    async with shop.waiting(FIVE) as thread:
        await thread.decide({"five": Edit(args={"cents": 3})})
        assert await ended(thread) == "done"
        assert shop.ran == ["refund 3"]
        assert await results(thread) == {"five": "(A person changed the arguments to {'cents': 3}.)\nrefunded 3"}
        (resumed,) = await events(thread, EventType.HITL_RESUME)
        assert resumed.data["modifiedToolCalls"] == [{"toolName": "refund", "callId": "five", "args": {"cents": 3}}]


@pytest.mark.parametrize(
    ("args", "wrong"),
    [({"cents": "lots"}, "cents"), ({}, "cents"), ({"cents": 5, "to": "me"}, "there is no argument to")],
)
async def test_an_edit_that_does_not_fit_the_schema_is_refused_and_changes_nothing(
    args: dict[str, JsonValue], wrong: str, shop: Shop
) -> None:
    async with shop.waiting([FIVE, SEVEN]) as thread:
        before = await snapshot(thread)
        with pytest.raises(InvalidInput, match=f"wrong arguments for refund: {wrong}"):
            await thread.decide({"seven": Approve(), "five": Edit(args=args)})
        assert await snapshot(thread) == before
        await thread.approve()
        assert await ended(thread) == "done"
        assert shop.ran == ["refund 5", "refund 7"]


# Denying.


async def test_a_denied_tool_never_runs_and_the_model_reads_why(shop: Shop) -> None:
    async with shop.waiting([LOOK, FIVE]) as thread:
        await thread.deny("the order is too old")
        assert await ended(thread) == "done"
        assert shop.ran == ["look order"]
        read = {message.tool_call_id: message.content for message in shop.model.requests[-1].messages}
        denied = "Error: permission_denied: a person denied this call, it was not run: the order is too old"
        assert (read["look"], read["five"]) == ("saw order", denied)
        (resumed,) = await events(thread, EventType.HITL_RESUME)
        assert resumed.data["approved"] is False
        assert resumed.data["decisions"] == {"five": "deny"}


async def test_a_denial_needs_no_reason(shop: Shop) -> None:
    async with shop.waiting(FIVE) as thread:
        await thread.deny()
        assert await ended(thread) == "done"
        assert shop.ran == []
        denied = "Error: permission_denied: a person denied this call, it was not run"
        assert await results(thread) == {"five": denied}


async def test_answers_may_differ_from_call_to_call(shop: Shop) -> None:
    nine = call("refund", cents=9, call_id="nine")
    async with shop.waiting([FIVE, SEVEN, nine]) as thread:
        await thread.decide({"five": Deny(reason="no"), "seven": Approve(), "nine": Edit(args={"cents": 1})})
        assert await ended(thread) == "done"
        assert shop.ran == ["refund 7", "refund 1"]
        read = await results(thread)
        assert list(read) == ["five", "seven", "nine"]
        assert (read["five"].startswith("Error: permission_denied"), read["seven"]) == (True, "refunded 7")


# Ending and coming back.


async def test_cancel_while_a_person_is_asked_gives_every_call_a_result(shop: Shop) -> None:
    async with shop.waiting([LOOK, FIVE, SEVEN]) as thread:
        await thread.decide({"seven": Deny(reason="no")})
        await thread.cancel()
        assert thread.run_state().status == "canceled"
        assert thread.run().meta.pending_tool_calls == ()
        read = await results(thread)
        assert read["look"] == read["five"] == "Canceled: the run was canceled."
        assert read["seven"].startswith("Error: permission_denied")
        with pytest.raises(WrongState):
            await thread.approve()
        assert shop.ran == []


async def test_a_canceled_thread_takes_a_new_message(shop: Shop) -> None:
    async with shop.waiting(FIVE, end="fine, I will not") as thread:
        await thread.cancel()
        await thread.invoke("never mind")
        assert await ended(thread) == "fine, I will not"
        assert shop.ran == []


@pytest.mark.parametrize("answer", [Approve(), Edit(args={"cents": 3}), Deny(reason="no")], ids=lambda a: a.decision)
async def test_what_waits_can_be_answered_after_closing_and_reopening(
    answer: Approve | Edit | Deny, shop: Shop
) -> None:
    async with shop.waiting([LOOK, FIVE]):
        pass
    assert shop.ran == []
    async with shop.open([LOOK, FIVE], "done") as thread:
        assert (thread.run_state().reason, pending(thread)) == ("hitl", ["five"])
        await thread.decide({"five": answer})
        assert await ended(thread) == "done"
        refunds = {"approve": ["refund 5"], "edit": ["refund 3"], "deny": []}
        assert shop.ran == ["look order", *refunds[answer.decision]]
        assert len(await events(thread, EventType.HITL_INTERRUPT)) == 1


async def test_answers_given_before_closing_still_count_after_reopening(shop: Shop) -> None:
    async with shop.waiting([FIVE, SEVEN]) as thread:
        await thread.decide({"five": Deny(reason="no")})
    async with shop.open([FIVE, SEVEN], "done") as thread:
        assert pending(thread) == ["seven"]
        await thread.approve()
        assert await ended(thread) == "done"
        assert shop.ran == ["refund 7"]


# Code mode.


async def test_code_cannot_run_a_listed_tool_without_a_person(tmp_path: Path) -> None:
    ran: list[int] = []

    @tool
    async def refund(cents: int) -> str:
        ran.append(cents)
        return "refunded"

    class Runner:
        async def run(self, code: str, state: JsonValue, call_tool: CallTool) -> CodeResult:
            outcome = await call_tool("refund", {"cents": 5})
            return CodeResult(output=outcome.text)

    model = ScriptedModel(["```python\nrefund(cents=5)\n```", "done"])
    system = (
        AgentSystem("scripted:any", providers={"scripted": model}, code_runner=Runner())
        .use(hitl, tags=["default"])
        .add_tool(refund)
        .add_agent(name="coder", description="", prompt="code", mode="code", config={"hitl": {"tools": ["refund"]}})
    )
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("coder")
        await thread.invoke("go")
        await thread.wait(timeout=5)
        assert ran == []
