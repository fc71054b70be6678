"""Who has to be asked: by the agency's rules, the blueprint's, the tool's own; and what counts if nobody answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from agency import (
    AgentSystem,
    Always,
    Approve,
    Ask,
    Deny,
    Edit,
    EventType,
    HookContext,
    LocalRuntime,
    Middleware,
    Policy,
    Risk,
    Rule,
    Thread,
    ToolCall,
    WrongState,
    risk_of,
    tool,
)
from agency.testing import Line, ScriptedModel, call
from middleware import hitl
from tests.support.approvals import ended, events, pending, results
from tests.support.families import next_event

HOUR = 3_600_000
SMALL, LARGE = call("pay", cents=5, call_id="small"), call("pay", cents=500, call_id="large")
OVER_100: Any = {"type": "object", "properties": {"cents": {"type": "integer", "minimum": 100}}, "required": ["cents"]}


def by_amount(args: Mapping[str, Any]) -> Risk:
    return "high" if args["cents"] >= 100 else "low"


class Bank:
    """A clerk with tools of every risk, in an agency with a policy; `paid` is what has really been done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paid: list[str] = []
        self.policy = Policy()

    def runtime(
        self,
        *lines: Line,
        config: Any = None,
        risk: Risk | Callable[[Any], Risk] = "low",
        people: bool = True,
        **more: Any,
    ) -> LocalRuntime:
        bank = self

        class Agency(LocalRuntime):
            def policy(self) -> Policy:
                return bank.policy

        @tool(risk=risk)
        async def pay(
            cents: int, in_currency: Annotated[str, Field(alias="inCurrency")] = "EUR", limit: int = 1_000
        ) -> str:
            self.paid.append(f"pay {cents}")
            return f"paid {cents}"

        @tool(safe=True)
        async def look() -> str:
            return "seen"

        system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(lines)}).use(hitl)
        system.add_tool(pay).add_tool(look)
        for middleware in more.get("middleware", ()):
            system.use(middleware, tags=["default"])
        tags = ["default", "hitl"] if people else ["default"]
        system.add_agent(
            name="clerk", description="", prompt="c", tags=tags, config={"hitl": config or {}} if people else {}
        )
        return Agency(system, self.folder)

    async def asks_about(self, *lines: Line, **how: Any) -> list[str]:
        """The calls of the first batch that a person is asked about."""
        async with self.runtime(*lines, "done", **how) as runtime:
            thread = await runtime.create_thread("clerk")
            await thread.invoke("go")
            await thread.wait(5)
            return pending(thread)


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path)


class FakeClock:
    """The clock of what is stored, which stands still until it is moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_700_000_000_000
        monkeypatch.setattr("agency.clock.time", SimpleNamespace(time_ns=lambda: self.now * 1_000_000))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    return FakeClock(monkeypatch)


# Risk.


@pytest.mark.parametrize(("risk", "asked"), [("low", []), ("medium", ["small"]), ("high", ["small"])])
async def test_low_runs_medium_and_high_ask(risk: Risk, asked: list[str], bank: Bank) -> None:
    assert await bank.asks_about(SMALL, risk=risk) == asked
    assert bank.paid == ([] if asked else ["pay 5"])


async def test_a_tools_risk_may_depend_on_the_arguments(bank: Bank) -> None:
    assert await bank.asks_about([SMALL, LARGE], risk=by_amount) == ["large"]


@pytest.mark.parametrize("wrong", [lambda args: 1 / 0, lambda args: "whatever", lambda args: None])
async def test_a_risk_function_that_fails_or_says_nonsense_counts_as_high(wrong: Any, bank: Bank) -> None:
    assert await bank.asks_about(SMALL, risk=wrong) == ["small"]


async def test_the_person_is_shown_the_risk_that_the_rule_gave(bank: Bank) -> None:
    config = {"rules": [{"tool": "pay", "when": OVER_100, "risk": "medium"}]}
    async with bank.runtime(LARGE, "done", config=config) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        (asked,) = (await thread.wait(5)).meta.pending_tool_calls
        assert (asked.risk, asked.kind, asked.expires_at) == ("medium", "approval", None)


# Rules.


async def test_a_blueprints_rule_goes_before_the_tools_own_word(bank: Bank) -> None:
    assert await bank.asks_about(SMALL, risk="high", config={"rules": [{"tool": "pay", "risk": "low"}]}) == []
    assert await bank.asks_about(SMALL, risk="low", config={"rules": [{"tool": "pay", "risk": "high"}]}) == ["small"]


async def test_the_agencys_rule_goes_before_the_blueprints(bank: Bank) -> None:
    lenient, strict = {"rules": [{"tool": "pay", "risk": "low"}]}, {"rules": [{"tool": "pay", "risk": "high"}]}
    bank.policy = Policy(rules=(Rule(tool="pay", risk="high"),))
    assert await bank.asks_about(SMALL, config=lenient) == ["small"]
    bank.policy = Policy(rules=(Rule(tool="pay", risk="low"),))
    assert await bank.asks_about(SMALL, config=strict) == []


async def test_the_first_rule_that_fits_counts(bank: Bank) -> None:
    rules = [{"tool": "pay", "when": OVER_100, "risk": "high"}, {"tool": "pay", "risk": "low"}, {"risk": "high"}]
    assert await bank.asks_about([SMALL, LARGE, call("look", call_id="look")], config={"rules": rules}) == [
        "large",
        "look",
    ]


async def test_a_tool_that_is_listed_by_name_asks_whatever_its_risk(bank: Bank) -> None:
    rules = [{"tool": "pay", "risk": "low"}]
    assert await bank.asks_about(SMALL, config={"tools": ["pay"], "rules": rules}) == ["small"]


@pytest.mark.parametrize("people", [True, False], ids=["with hitl", "without hitl"])
async def test_an_agencys_policy_asks_for_agents_with_and_without_hitl(people: bool, bank: Bank) -> None:
    bank.policy = Policy(rules=(Rule(tool="pay", when=OVER_100, risk="high"),))
    assert await bank.asks_about([SMALL, LARGE], people=people) == ["large"]
    assert bank.paid == []


async def test_without_hitl_the_policys_question_is_answered_like_any_other(bank: Bank) -> None:
    bank.policy = Policy(rules=(Rule(risk="medium"),))
    async with bank.runtime([SMALL, LARGE], SMALL, "done", people=False) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(5)
        await thread.decide({"small": Always(), "large": Deny()})
        assert await ended(thread) == "done"
        assert bank.paid == ["pay 5", "pay 5"]


async def test_a_policy_that_changes_holds_from_the_next_reply_on(bank: Bank) -> None:
    async with bank.runtime(SMALL, SMALL, "done", people=False) as runtime:
        thread = await runtime.create_thread("clerk")
        bank.policy = Policy(rules=(Rule(risk="high"),))
        await thread.invoke("go")
        await thread.wait(5)
        bank.policy = Policy()
        await thread.approve()
        assert await ended(thread) == "done"
        assert bank.paid == ["pay 5", "pay 5"]


@pytest.mark.parametrize(
    "args",
    [
        {"cents": 500},
        {"cents": "500"},
        {"cents": 500.0},
        {"cents": 500, "in_currency": "USD"},
        {"cents": 1, "limit": "5000"},
    ],
)
async def test_a_rule_sees_the_arguments_as_the_tool_will_get_them(args: dict[str, Any], bank: Bank) -> None:
    """Another spelling of a number must not get around it."""
    over_limit: Any = {"properties": {"limit": {"type": "integer", "exclusiveMinimum": 1000}}, "required": ["limit"]}
    rules = (Rule(tool="pay", when=OVER_100, risk="high"), Rule(tool="pay", when=over_limit, risk="high"))
    bank.policy = Policy(rules=rules)
    assert await bank.asks_about(ToolCall(id="c", name="pay", args=args)) == ["c"]
    assert bank.paid == []


async def test_a_rule_sees_defaults_and_the_names_of_the_schema(bank: Bank) -> None:
    euros: Any = {"properties": {"inCurrency": {"const": "EUR"}}, "required": ["inCurrency"]}
    bank.policy = Policy(rules=(Rule(tool="pay", when=euros, risk="high"),))
    named = ToolCall(id="named", name="pay", args={"cents": 1, "in_currency": "EUR"})
    other = ToolCall(id="other", name="pay", args={"cents": 1, "inCurrency": "USD"})
    assert await bank.asks_about([SMALL, named, other]) == ["small", "named"]


async def test_a_lenient_rule_is_not_met_by_what_the_schema_does_not_look_at(bank: Bank) -> None:
    up_to_ten: Any = {"properties": {"cents": {"maximum": 10}}}
    config = {"rules": [{"tool": "pay", "when": up_to_ten, "risk": "low"}]}
    sneaky = ToolCall(id="sneaky", name="pay", args={"cents": "5000"})
    assert await bank.asks_about([SMALL, sneaky], risk="high", config=config) == ["sneaky"]


async def test_arguments_that_do_not_fit_the_tool_run_nothing_whoever_was_asked(bank: Bank) -> None:
    bank.policy = Policy(rules=(Rule(tool="pay", when=OVER_100, risk="high"),))
    wrong = ToolCall(id="wrong", name="pay", args={"cents": "many"})
    assert await bank.asks_about(wrong) == []
    assert bank.paid == []


async def test_a_call_of_a_tool_that_does_not_exist_is_high(bank: Bank) -> None:
    assert risk_of(call("ghost"), None, [Rule(tool="pay", risk="low")]) == "high"
    assert risk_of(call("ghost"), None, [Rule(risk="low")]) == "low"


async def test_nobody_is_asked_about_a_tool_that_does_not_exist(bank: Bank) -> None:
    bank.policy = Policy(rules=(Rule(risk="high"),))
    assert await bank.asks_about(call("ghost", call_id="ghost")) == []


@pytest.mark.parametrize(
    "rule",
    [
        {"tool": "pay"},
        {"tool": "", "risk": "low"},
        {"risk": "extreme"},
        {"risk": "low", "when": {"type": "nonsense"}},
        {"risk": "low", "when": {"$ref": "https://elsewhere.example/schema"}},
    ],
)
def test_a_rule_that_cannot_be_used_is_refused_when_it_is_made(rule: Any) -> None:
    with pytest.raises(ValidationError):
        Rule.model_validate(rule)


# Nobody answers.


async def test_without_an_answer_in_time_the_call_is_denied(bank: Bank) -> None:
    config = {"tools": ["pay"], "timeoutMs": 20}
    async with bank.runtime([SMALL, call("look", call_id="look")], "done", config=config) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        assert (await next_event(thread, EventType.HITL_RESUME)).data["by"] == "timeout"
        assert await ended(thread) == "done"
        denied = "Error: permission_denied: no person approved this call in time, it was not run"
        assert await results(thread) == {"small": denied, "look": "seen"}
        assert (bank.paid, thread.wake_at) == ([], None)


async def test_without_an_answer_in_time_the_call_is_approved_if_that_was_configured(bank: Bank) -> None:
    config = {"tools": ["pay"], "timeoutMs": 20, "onTimeout": "approve"}
    async with bank.runtime(SMALL, "done", config=config) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        resumed = await next_event(thread, EventType.HITL_RESUME)
        assert (resumed.data["by"], resumed.data["decisions"]) == ("timeout", {"small": "approve"})
        assert await ended(thread) == "done"
        assert bank.paid == ["pay 5"]


@pytest.mark.parametrize(("on_timeout", "paid"), [("deny", []), ("approve", ["pay 5"])])
async def test_a_deadline_that_passes_while_nothing_is_open_counts_at_the_next_opening(
    on_timeout: str, paid: list[str], bank: Bank, clock: FakeClock
) -> None:
    config = {"tools": ["pay"], "timeoutMs": HOUR, "onTimeout": on_timeout}
    async with bank.runtime(SMALL, "done", config=config) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        await thread.invoke("go")
        (asked,) = (await thread.wait(5)).meta.pending_tool_calls
        assert (asked.expires_at, asked.on_timeout) == ("2023-11-14T23:13:20.000Z", on_timeout)
        assert thread.wake_at == clock.now + HOUR
    clock.now += HOUR - 1
    async with bank.runtime(SMALL, "done", config=config) as runtime:
        assert pending(await runtime.thread("t")) == ["small"]
    clock.now += 1
    async with bank.runtime(SMALL, "done", config=config) as runtime:  # entering wakes what is due
        thread = await runtime.thread("t")
        await next_event(thread, EventType.AGENT_COMPLETED)
        assert bank.paid == paid
        assert len(await events(thread, EventType.HITL_RESUME)) == 1


async def test_an_answer_in_time_stops_the_clock(bank: Bank, clock: FakeClock) -> None:
    config = {"tools": ["pay"], "timeoutMs": HOUR}
    async with bank.runtime(SMALL, SMALL, "done", config=config) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        await thread.invoke("go")
        await thread.wait(5)
        clock.now += HOUR // 2
        await thread.approve()
        await thread.wait(5)
        assert (pending(thread), thread.wake_at) == (["small"], clock.now + HOUR)  # the next question has its own hour
        await thread.approve()
        assert await ended(thread) == "done"
        assert (bank.paid, thread.wake_at) == (["pay 5", "pay 5"], None)


async def test_a_late_answer_is_refused(bank: Bank) -> None:
    config = {"tools": ["pay"], "timeoutMs": 20}
    async with bank.runtime(SMALL, "done", config=config) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        (asked,) = (await thread.wait(5)).meta.pending_tool_calls
        await next_event(thread, EventType.HITL_RESUME)
        for late in (asked.approval_id, asked.id):
            with pytest.raises(WrongState):
                await thread.decide({late: Approve()})
        assert await ended(thread) == "done"
        assert bank.paid == []


async def test_partial_answers_stand_when_the_rest_times_out(bank: Bank, clock: FakeClock) -> None:
    config = {"tools": ["pay"], "timeoutMs": HOUR}
    lines: list[Line] = [[SMALL, LARGE], "done"]
    async with bank.runtime(*lines, config=config) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        await thread.invoke("go")
        await thread.wait(5)
        await thread.decide({"small": Edit(args={"cents": 1})})
        assert (pending(thread), bank.paid, thread.wake_at) == (["large"], [], clock.now + HOUR)
    clock.now += 2 * HOUR
    async with bank.runtime(*lines, config=config) as runtime:
        thread = await runtime.thread("t")
        await next_event(thread, EventType.AGENT_COMPLETED)
        assert bank.paid == ["pay 1"]
        assert [e.data.get("by") for e in await events(thread, EventType.HITL_RESUME)] == [None, "timeout"]


class Gate(Middleware):
    """Asks about each call with a deadline of its own."""

    name = "gate"

    async def gate_tool(self, ctx: HookContext, tool_call: ToolCall) -> Ask | None:
        if tool_call.id == "small":
            return Ask(note="small change", timeout_ms=HOUR, on_timeout="approve")
        return Ask(timeout_ms=3 * HOUR)


async def test_each_call_has_its_own_deadline_and_the_batch_runs_after_the_last(bank: Bank, clock: FakeClock) -> None:
    lines: list[Line] = [[SMALL, LARGE], "done"]

    def runtime() -> LocalRuntime:
        return bank.runtime(*lines, middleware=[Gate()])

    async with runtime() as first:
        thread = await first.create_thread("clerk", thread_id="t")
        await thread.invoke("go")
        asked = (await thread.wait(5)).meta.pending_tool_calls
        assert [(each.id, each.note) for each in asked] == [("small", "small change"), ("large", "")]
        start = clock.now
        assert thread.wake_at == start + HOUR
    clock.now = start + 2 * HOUR
    async with runtime() as second:
        thread = await second.thread("t")
        await next_event(thread, EventType.HITL_RESUME)
        assert (pending(thread), bank.paid, thread.wake_at) == (["large"], [], start + 3 * HOUR)
    clock.now = start + 4 * HOUR
    async with runtime() as third:
        thread = await third.thread("t")
        await next_event(thread, EventType.AGENT_COMPLETED)
        assert bank.paid == ["pay 5"]
        assert (await results(thread))["large"].endswith("no person approved this call in time, it was not run")


async def test_a_clock_that_was_set_back_does_not_cut_the_time_to_answer(bank: Bank, clock: FakeClock) -> None:
    config = {"tools": ["pay"], "timeoutMs": 50}
    async with bank.runtime(SMALL, "done", config=config) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        await thread.invoke("go")
        await thread.wait(5)
        clock.now -= HOUR
        await asyncio.sleep(0.05)  # the loop, whose clock goes on, rings what was set before this first
        assert (pending(thread), thread.wake_at) == (["small"], clock.now + HOUR + 50)


async def test_a_blueprint_cannot_approve_by_silence_what_the_agency_asks_about(bank: Bank, clock: FakeClock) -> None:
    bank.policy = Policy(rules=(Rule(tool="pay", risk="high"),), timeout_ms=2 * HOUR)
    config = {"tools": ["pay"], "timeoutMs": HOUR, "onTimeout": "approve"}
    async with bank.runtime(SMALL, "done", config=config) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        await thread.invoke("go")
        (asked,) = (await thread.wait(5)).meta.pending_tool_calls
        assert (asked.on_timeout, thread.wake_at) == ("deny", clock.now + 2 * HOUR)


async def test_nor_can_a_gate(bank: Bank) -> None:
    bank.policy = Policy(rules=(Rule(tool="pay", risk="high"),))
    async with bank.runtime(SMALL, "done", middleware=[Gate()], people=False) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        (asked,) = (await thread.wait(5)).meta.pending_tool_calls
        assert (asked.on_timeout, asked.expires_at, asked.note) == ("deny", None, "small change")


async def test_the_agencys_time_holds_for_questions_of_blueprints_that_name_none(bank: Bank, clock: FakeClock) -> None:
    bank.policy = Policy(timeout_ms=HOUR, on_timeout="approve")
    async with bank.runtime(SMALL, "done", config={"tools": ["pay"]}) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        await thread.invoke("go")
        (asked,) = (await thread.wait(5)).meta.pending_tool_calls
        assert (asked.on_timeout, thread.wake_at) == ("approve", clock.now + HOUR)


async def test_what_was_approved_for_always_is_not_asked_about_by_gates_either(bank: Bank) -> None:
    async with bank.runtime(LARGE, LARGE, "done", middleware=[Gate()]) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(5)
        await thread.decide({"large": Always()})
        assert await ended(thread) == "done"
        assert bank.paid == ["pay 500", "pay 500"]


async def canceled(thread: Thread) -> None:
    await thread.cancel()
    assert thread.run_state().status == "canceled"


async def test_a_canceled_run_has_no_deadline_left(bank: Bank) -> None:
    config = {"tools": ["pay"], "timeoutMs": HOUR}
    async with bank.runtime(SMALL, "done", config=config) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(5)
        await canceled(thread)
        assert (thread.wake_at, thread.at_rest) == (None, True)
