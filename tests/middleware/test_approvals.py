"""An answer counts once, for exactly the calls that it names; those that are not named go on waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agency import (
    AgentSystem,
    Always,
    Approve,
    ApproveResult,
    Decision,
    Deny,
    Edit,
    EventType,
    Happened,
    HookContext,
    InvalidInput,
    LocalRuntime,
    Middleware,
    PendingToolCall,
    Policy,
    Rerun,
    Respond,
    Thread,
    ToolCall,
    ToolContext,
    WrongState,
    tool,
)
from agency.testing import Line, ScriptedModel, call
from middleware import hitl
from tests.support.approvals import FIVE, LOOK, SEVEN, Shop, ended, events, pending, results, snapshot
from tests.support.families import FamilyRuntime, Part, answer_of, cast, task
from tests.support.families import results as family_results
from tests.support.waiting import eventually

NINE = call("refund", cents=9, call_id="nine")
TWO = call("refund", cents=2, call_id="two")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def waiting(thread: Thread) -> dict[str, PendingToolCall]:
    return {each.id: each for each in thread.run().meta.pending_tool_calls}


# What the five decisions do.


async def test_respond_is_the_calls_result_and_the_tool_does_not_run(shop: Shop) -> None:
    async with shop.waiting([LOOK, FIVE]) as thread:
        await thread.decide({"five": Respond(content="paid in cash")})
        assert await ended(thread) == "done"
        assert shop.ran == ["look order"]
        assert await results(thread) == {"look": "saw order", "five": "paid in cash"}
        (told,) = [e for e in await events(thread, EventType.TOOL_OUTPUT) if e.data["callId"] == "five"]
        assert told.data["output"] == "paid in cash"


async def test_always_runs_the_call_and_asks_no_more_about_its_tool_in_this_thread(shop: Shop) -> None:
    async with shop.waiting(FIVE, SEVEN) as thread:
        await thread.decide({"five": Always()})
        assert await ended(thread) == "done"
        assert shop.ran == ["refund 5", "refund 7"]
        assert len(await events(thread, EventType.HITL_INTERRUPT)) == 1
    async with shop.open(FIVE, SEVEN, "done", NINE, "more") as thread:  # it is remembered by the file
        await thread.invoke("and again")
        assert await ended(thread) == "more"
        assert shop.ran[-1] == "refund 9"
    async with LocalRuntime(shop.system([FIVE, "done"]), shop.folder / "elsewhere") as runtime:
        other = await runtime.create_thread("clerk")
        await other.invoke("go")
        assert (await other.wait(5)).meta.pause_reason == "hitl"  # another thread asks for itself


async def test_always_is_for_the_one_tool_only(tmp_path: Path) -> None:
    ran: list[str] = []

    @tool
    async def pay(what: str) -> str:
        ran.append(f"pay {what}")
        return "paid"

    @tool
    async def ship(what: str) -> str:
        ran.append(f"ship {what}")
        return "shipped"

    lines: list[Line] = [
        [call("pay", what="a", call_id="p1"), call("ship", what="a", call_id="s1")],
        [call("pay", what="b", call_id="p2"), call("ship", what="b", call_id="s2")],
        "done",
    ]
    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(lines)}).use(hitl, tags=["default"])
    system.add_tool(pay).add_tool(ship)
    system.add_agent(name="clerk", description="", prompt="clerk", config={"hitl": {"tools": ["pay", "ship"]}})
    async with LocalRuntime(system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(5)
        await thread.decide({"p1": Always(), "s1": Approve()})
        await thread.wait(5)
        assert (pending(thread), ran) == (["s2"], ["pay a", "ship a"])
        await thread.deny()
        assert await ended(thread) == "done"
        assert ran == ["pay a", "ship a", "pay b"]


@pytest.mark.parametrize(
    "decision", [Approve(), Edit(args={"cents": 1}), Deny(), Respond(content="so"), Always()], ids=lambda d: d.decision
)
async def test_what_was_decided_is_told_in_one_event(decision: Decision, shop: Shop) -> None:
    async with shop.waiting(FIVE) as thread:
        await thread.decide({"five": decision})
        assert await ended(thread) == "done"
        (resumed,) = await events(thread, EventType.HITL_RESUME)
        assert resumed.data["decisions"] == {"five": decision.decision}
        assert resumed.data["approved"] is (decision.decision != "deny")
        assert "by" not in resumed.data


# One of four.


async def test_denying_one_of_four_calls_lets_the_other_three_run_and_each_has_its_result(shop: Shop) -> None:
    async with shop.waiting([FIVE, SEVEN, NINE, TWO]) as thread:
        await thread.decide({"five": Approve(), "seven": Deny(reason="no"), "nine": Approve(), "two": Approve()})
        assert await ended(thread) == "done"
        assert shop.ran == ["refund 5", "refund 9", "refund 2"]
        assert await results(thread) == {
            "five": "refunded 5",
            "seven": "Error: permission_denied: a person denied this call, it was not run: no",
            "nine": "refunded 9",
            "two": "refunded 2",
        }


async def test_partial_answers_wait_for_the_rest_and_nothing_runs_until_the_last_one(shop: Shop) -> None:
    async with shop.waiting([FIVE, SEVEN, LOOK, NINE, TWO]) as thread:
        first: dict[str, Decision] = {"seven": Deny(), "two": Respond(content="mine"), "five": Approve()}
        for number, (call_id, decision) in enumerate(first.items(), 1):
            await thread.decide({call_id: decision})
            assert (len(pending(thread)), thread.run_state().reason, shop.ran) == (4 - number, "hitl", [])
        await thread.decide({"nine": Edit(args={"cents": 1})})
        assert await ended(thread) == "done"
        assert shop.ran == ["refund 5", "look order", "refund 1"]
        assert list(await results(thread)) == ["five", "seven", "look", "nine", "two"]


# Approval ids.


async def test_an_approval_id_names_the_call_and_the_call_id_does_too(shop: Shop) -> None:
    async with shop.waiting([FIVE, SEVEN]) as thread:
        five = waiting(thread)["five"].approval_id
        assert five.startswith(f"{thread.id}:")
        await thread.decide({five: Deny(), "seven": Approve()})
        assert await ended(thread) == "done"
        assert shop.ran == ["refund 7"]


async def test_a_call_that_is_named_twice_over_is_refused(shop: Shop) -> None:
    async with shop.waiting(FIVE) as thread:
        before = await snapshot(thread)
        with pytest.raises(InvalidInput, match="twice"):
            await thread.decide({waiting(thread)["five"].approval_id: Approve(), "five": Deny()})
        assert await snapshot(thread) == before
        assert shop.ran == []


async def test_the_approval_id_of_an_earlier_batch_does_not_fit_the_same_call_id_later(shop: Shop) -> None:
    async with shop.waiting(FIVE, FIVE) as thread:
        first = waiting(thread)["five"].approval_id
        await thread.decide({first: Approve()})
        await thread.wait(5)
        assert pending(thread) == ["five"]
        before = await snapshot(thread)
        with pytest.raises(WrongState, match="decided already, or has changed"):
            await thread.decide({first: Approve()})
        assert (await snapshot(thread), shop.ran) == (before, ["refund 5"])
        assert waiting(thread)["five"].approval_id != first


async def test_an_approval_id_of_other_arguments_is_refused_and_changes_nothing(shop: Shop) -> None:
    """The run was interrupted and the model asks for something else under the same id."""
    other = call("refund", cents=500, call_id="five")
    async with shop.waiting(FIVE, other) as thread:
        first = waiting(thread)["five"].approval_id
        await thread.invoke("make it more", when="now")
        await thread.wait(5)
        assert waiting(thread)["five"].args == {"cents": 500}
        before = await snapshot(thread)
        with pytest.raises(WrongState):
            await thread.decide({first: Approve()})
        assert (await snapshot(thread), shop.ran) == (before, [])


async def test_the_same_question_keeps_its_approval_id_over_a_reopening(shop: Shop) -> None:
    async with shop.waiting([FIVE, SEVEN]) as thread:
        names = {i: each.approval_id for i, each in waiting(thread).items()}
        assert len(set(names.values())) == 2
    async with shop.open([FIVE, SEVEN], "done") as thread:
        assert {i: each.approval_id for i, each in waiting(thread).items()} == names
        await thread.decide({names["five"]: Deny(), names["seven"]: Deny()})
        assert await ended(thread) == "done"


async def test_nobody_is_waited_for_and_an_old_approval_id_says_so(shop: Shop) -> None:
    async with shop.waiting(FIVE) as thread:
        first = waiting(thread)["five"].approval_id
        await thread.decide({first: Deny()})
        assert await ended(thread) == "done"
        before = await snapshot(thread)
        for name in (first, "five"):
            with pytest.raises(WrongState):
                await thread.decide({name: Approve()})
        assert (await snapshot(thread), shop.ran) == (before, [])


# Two people.


class Slow(Middleware):
    """Has every answer wait until all of them have come."""

    name = "slow"

    def __init__(self, people: int) -> None:
        self._left = people
        self._all = asyncio.Event()

    async def on_resume(self, ctx: HookContext, reason: str, decisions: Mapping[str, Decision]) -> None:
        ctx.store.put("slow", "seen", (ctx.store.get("slow", "seen") or 0) + 1)  # type: ignore[operator]  # a number
        self._left -= 1
        if self._left <= 0:
            self._all.set()
        await self._all.wait()


ANSWERS: list[tuple[Decision, Decision]] = [
    (Approve(), Approve()),
    (Approve(), Deny(reason="no")),
    (Deny(), Approve()),
    (Edit(args={"cents": 1}), Edit(args={"cents": 2})),
    (Respond(content="mine"), Always()),
]


@pytest.mark.parametrize("answers", ANSWERS, ids=lambda pair: "-".join(d.decision for d in pair))
@pytest.mark.parametrize("by", ["call id", "approval id", "one of each"])
@pytest.mark.parametrize("slow", [False, True], ids=["at once", "within their hooks"])
async def test_of_two_people_who_answer_at_once_one_counts_and_the_other_is_told(
    answers: tuple[Decision, Decision], by: str, slow: bool, shop: Shop
) -> None:
    system = shop.system([[LOOK, FIVE], "done"])
    if slow:
        system.use(Slow(people=2), tags=["default"])
    async with LocalRuntime(system, shop.folder) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(5)
        approval = waiting(thread)["five"].approval_id
        names = {"call id": ("five", "five"), "approval id": (approval, approval), "one of each": ("five", approval)}
        outcomes = await asyncio.gather(
            *(thread.decide({name: answer}) for name, answer in zip(names[by], answers, strict=True)),
            return_exceptions=True,
        )
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "WrongState"]
        counted = answers[outcomes.index(None)]
        assert await ended(thread) == "done"
        expected = {"approve": ["refund 5"], "edit": [f"refund {1 + outcomes.index(None)}"], "always": ["refund 5"]}
        assert shop.ran == ["look order", *expected.get(counted.decision, [])]
        (resumed,) = await events(thread, EventType.HITL_RESUME)
        assert resumed.data["decisions"] == {"five": counted.decision}
        assert len(await results(thread)) == 2


async def test_of_two_people_one_of_whom_answers_more_the_second_is_refused_whole(shop: Shop) -> None:
    async with shop.waiting([FIVE, SEVEN]) as thread:
        outcomes = await asyncio.gather(
            thread.decide({"five": Deny()}),
            thread.decide({"five": Approve(), "seven": Approve()}),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [type(None), InvalidInput]
        assert (pending(thread), shop.ran) == (["seven"], [])
        await thread.decide({"seven": Approve()})
        assert await ended(thread) == "done"
        assert shop.ran == ["refund 7"]


async def test_one_request_that_comes_twice_at_once_counts_once_and_both_are_content(shop: Shop) -> None:
    system = shop.system([FIVE, "done"]).use(Slow(people=2), tags=["default"])
    async with LocalRuntime(system, shop.folder) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(5)
        await asyncio.gather(*(thread.decide({"five": Approve()}, idempotency_key="click") for _ in range(2)))
        assert await ended(thread) == "done"
        assert shop.ran == ["refund 5"]


# Families.


async def test_an_approval_inside_a_child_of_a_child_is_answered_there_and_the_whole_family_ends(
    tmp_path: Path,
) -> None:
    ran: list[int] = []

    @tool(idempotent=False, risk="high")
    async def pay(cents: int) -> str:
        ran.append(cents)
        return f"paid {cents}"

    pays = [call("pay", cents=5, call_id="a"), call("pay", cents=7, call_id="b")]
    parts: dict[str, Part] = {
        "boss": [task("lead"), "all done"],
        "lead": [task("payer"), "the payer is done"],
        "payer": [pays, "paid what I may"],
    }
    async with FamilyRuntime(cast(parts, pay), tmp_path) as runtime:
        boss = await runtime.create_thread("boss", thread_id="boss")
        await boss.invoke("go")
        lead = await runtime.child_of(boss)
        payer = await runtime.child_of(lead)
        assert (await payer.wait(10)).meta.pause_reason == "hitl"
        assert {boss.run_state().reason, lead.run_state().reason} == {"subagent"}
        for thread in (boss, lead):
            with pytest.raises(WrongState):
                await thread.approve()
    assert ran == []
    async with FamilyRuntime(cast(parts, pay), tmp_path) as runtime:  # all of it again, from the files
        payer = await runtime.thread(payer.id)
        names = {each.id: each.approval_id for each in payer.run().meta.pending_tool_calls}
        await payer.decide({names["a"]: Approve(), names["b"]: Deny(reason="enough")})
        boss, lead = await runtime.thread("boss"), await runtime.thread(lead.id)
        assert await answer_of(boss) == "all done"
        assert ran == [5]
        assert await family_results(boss) == {"task": "the payer is done"}
        assert await family_results(lead) == {"task": "paid what I may"}
        assert (await family_results(payer))["b"].endswith("it was not run: enough")
        assert [thread.run_state().status for thread in (boss, lead, payer)] == ["completed"] * 3


# In doubt.


class Till:
    """A tool that must not be repeated, in which the process dies as often as wanted."""

    def __init__(self, folder: Path, config: Mapping[str, Any] | None = None, policy: Policy | None = None) -> None:
        self.folder = folder
        self.config = config or {}
        self.policy = policy or Policy()
        self.charges = 0
        self.hangs = asyncio.Event()

    def runtime(self, *, dies: bool, guarded: Sequence[str] = ()) -> LocalRuntime:
        self.hangs.clear()

        @tool(idempotent=False, in_doubt="ask")
        async def charge(cents: int, ctx: ToolContext) -> str:
            self.charges += 1
            if dies:
                self.hangs.set()
                await asyncio.Event().wait()
            return f"charged {cents}"

        @tool(safe=True)
        async def look() -> str:
            return "seen"

        lines: list[Line] = [[call("charge", cents=5, call_id="ch"), call("look", call_id="lo")], "done"]
        system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(lines)}).use(hitl, tags=["default"])
        system.add_tool(charge).add_tool(look)
        system.add_agent(
            name="clerk", description="", prompt="c", config={"hitl": {"tools": [*guarded], **self.config}}
        )
        policy = self.policy

        class Agency(LocalRuntime):
            def policy(self) -> Policy:
                return policy

        return Agency(system, self.folder)

    async def doubt(self) -> None:
        """Charge, and lose the process in it."""
        async with self.runtime(dies=True) as runtime:
            thread = await runtime.create_thread("clerk", thread_id="clerk")
            await thread.invoke("go")
            await self.hangs.wait()


@pytest.mark.parametrize(
    ("decision", "charges", "text"),
    [
        (Rerun(), 2, "charged 5"),
        (Happened(result="charged on Monday"), 1, "charged on Monday"),
        (Happened(result={"cents": 5}), 1, '{"cents":5}'),
        (Happened(), 1, ""),
        (Respond(content="it had gone through"), 1, "it had gone through"),
        (Deny(reason="leave it"), 1, "It was not run again: a person denied this call: leave it"),
    ],
    ids=lambda value: value.decision if hasattr(value, "decision") else "",
)
async def test_a_call_in_doubt_is_asked_about_with_what_is_known_and_then_follows_the_answer(
    decision: Decision, charges: int, text: str, tmp_path: Path
) -> None:
    till = Till(tmp_path)
    await till.doubt()
    async with till.runtime(dies=False) as runtime:
        thread = await runtime.thread("clerk")
        await thread.wait(5)
        (asked,) = thread.run().meta.pending_tool_calls
        assert (asked.id, asked.kind, asked.args) == ("ch", "in_doubt", {"cents": 5})
        assert asked.since is not None and "may or may not have taken effect" in asked.note
        await thread.decide({asked.approval_id: decision})
        assert await ended(thread) == "done"
        found = await results(thread)
        assert found["ch"].endswith(text) and found["lo"] == "seen"
        assert till.charges == charges


@pytest.mark.parametrize("decision", [Approve(), Edit(args={"cents": 1}), Always()], ids=lambda each: each.decision)
async def test_a_decision_that_is_for_calls_which_have_not_begun_runs_no_call_in_doubt(
    decision: Decision, tmp_path: Path
) -> None:
    till = Till(tmp_path)
    await till.doubt()
    async with till.runtime(dies=False) as runtime:
        thread = await runtime.thread("clerk")
        await thread.wait(5)
        before = await snapshot(thread)
        with pytest.raises(InvalidInput, match="in doubt, it may have happened: run it again"):
            await thread.decide({"ch": decision})
        assert (await snapshot(thread), till.charges) == (before, 1)


async def test_approving_leaves_calls_in_doubt_waiting_and_says_so(tmp_path: Path) -> None:
    till = Till(tmp_path)
    await till.doubt()
    async with till.runtime(dies=False) as runtime:
        thread = await runtime.thread("clerk")
        await thread.wait(5)
        before = await snapshot(thread)
        for modified in ((), [ToolCall(id="ch", name="charge", args={"cents": 5})]):
            assert await thread.approve(modified) == ApproveResult(in_doubt=("ch",))
        with pytest.raises(InvalidInput, match="in doubt"):
            await thread.approve([ToolCall(id="ch", name="charge", args={"cents": 6})])
        assert (await snapshot(thread), till.charges) == (before, 1)
        (interrupt,) = await events(thread, EventType.HITL_INTERRUPT)
        assert interrupt.data["kind"] == "in_doubt"
        await thread.decide({"ch": Happened(result="yes")}, by="Ann")
        assert await ended(thread) == "done"
        (resumed,) = await events(thread, EventType.HITL_RESUME)
        assert (resumed.data["decisions"], resumed.data["decidedBy"]) == ({"ch": "happened"}, "Ann")
        (output,) = (each for each in await events(thread, EventType.TOOL_OUTPUT) if each.data["callId"] == "ch")
        assert output.data["output"] == "yes"


async def test_calls_that_have_not_begun_are_no_calls_in_doubt(tmp_path: Path) -> None:
    till = Till(tmp_path)
    async with till.runtime(dies=False, guarded=["charge"]) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="clerk")
        await thread.invoke("go")
        await thread.wait(5)
        (interrupt,) = await events(thread, EventType.HITL_INTERRUPT)
        assert interrupt.data["kind"] == "approval"
        for decision in (Rerun(), Happened(result="yes")):
            with pytest.raises(InvalidInput, match="is not in doubt"):
                await thread.decide({"ch": decision})
        assert await thread.approve() == ApproveResult()
        assert await ended(thread) == "done"
        assert till.charges == 1


@pytest.mark.parametrize("source", ["hitl", "policy"])
async def test_a_doubt_has_a_deadline_and_is_never_run_again_by_it(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SimpleNamespace(ms=1_700_000_000_000)
    monkeypatch.setattr("agency.clock.time", SimpleNamespace(time_ns=lambda: now.ms * 1_000_000))
    limit: dict[str, Any] = {"timeoutMs": 60_000, "onTimeout": "approve"}
    till = Till(tmp_path, limit if source == "hitl" else {}, Policy.model_validate(limit if source == "policy" else {}))
    await till.doubt()
    async with till.runtime(dies=False) as runtime:
        thread = await runtime.thread("clerk")
        await thread.wait(5)
        (asked,) = thread.run().meta.pending_tool_calls
        assert (asked.expires_at, asked.on_timeout) == ("2023-11-14T22:14:20.000Z", "deny")
        now.ms += 60_001
    async with till.runtime(dies=False) as runtime:
        thread = await runtime.thread("clerk")
        await eventually(lambda: thread.run().status == "completed")
        assert (await results(thread))["ch"].endswith("It was not run again: no person approved this call in time")
        assert till.charges == 1


async def test_an_approval_given_before_a_crash_does_not_approve_the_doubt_after_it(tmp_path: Path) -> None:
    """A late double click must not run anything twice."""
    till = Till(tmp_path)
    async with till.runtime(dies=True, guarded=["charge"]) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="clerk")
        await thread.invoke("go")
        await thread.wait(5)
        first = waiting(thread)["ch"].approval_id
        await thread.decide({first: Approve()})
        await till.hangs.wait()
    async with till.runtime(dies=True, guarded=["charge"]) as runtime:
        thread = await runtime.thread("clerk")
        await thread.wait(5)
        second = waiting(thread)["ch"].approval_id
        with pytest.raises(WrongState):
            await thread.decide({first: Approve()})
        assert till.charges == 1
        await thread.decide({second: Rerun()})
        await till.hangs.wait()
    async with till.runtime(dies=False, guarded=["charge"]) as runtime:
        thread = await runtime.thread("clerk")
        await thread.wait(5)
        for late in (first, second):
            with pytest.raises(WrongState):
                await thread.decide({late: Approve()})
        assert till.charges == 2
        await thread.decide({"ch": Deny()})
        assert await ended(thread) == "done"
        assert till.charges == 2


async def test_a_message_that_interrupts_a_doubt_leaves_the_model_knowing_of_it(tmp_path: Path) -> None:
    till = Till(tmp_path)
    await till.doubt()
    async with till.runtime(dies=False) as runtime:
        thread = await runtime.thread("clerk")
        await thread.wait(5)
        await thread.invoke("stop asking", when="now")
        assert await ended(thread) == "done"
        found = await results(thread)
        assert "may or may not have taken effect" in found["ch"]
        assert found["lo"] == "Canceled: a new message came first."
        assert till.charges == 1
