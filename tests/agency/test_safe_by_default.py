"""A risky tool runs after a person was asked, or because the agent's definition says that none is."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agency import (
    AgentSystem,
    Blueprint,
    CallTool,
    CodeResult,
    DefinitionError,
    EventType,
    HookContext,
    InvalidInput,
    LocalRuntime,
    Middleware,
    Thread,
    Tool,
    ToolContext,
    open_thread,
    tool,
)
from agency.testing import Line, ScriptedModel, call
from middleware import hitl, subagents
from tests.support.approvals import ended, events, pending

RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@tool(risk="high")
async def refund(cents: int) -> str:
    """Refund something."""
    RAN.append(f"refund {cents}")
    return "refunded"


@tool(risk=lambda args: "high" if args["cents"] > 5 else "low")
async def pay(cents: int) -> str:
    """Pay something."""
    return "paid"


@tool(risk="medium", ray={"num_cpus": 1})
async def train(cents: int) -> str:
    """Train something, as a Ray task."""
    return "trained"


async def _forward(args: dict[str, Any], ctx: ToolContext) -> str:
    return "forwarded"


forward = Tool.from_schema("forward", "Forward.", {"type": "object"}, _forward, risk="medium")

FIVE: Line = call("refund", cents=5, call_id="five")


class NoRunner:
    async def run(self, code: str, state: object, call_tool: CallTool) -> CodeResult:
        return CodeResult(output="")


def system(*tools: Tool, lines: Sequence[Line] = (FIVE, "done")) -> AgentSystem:
    made = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(lines)}, code_runner=NoRunner())
    for each in tools:
        made.add_tool(each)
    return made


def clerk(made: AgentSystem, **more: Any) -> AgentSystem:
    return made.add_agent(name="clerk", description="", prompt="You refund.", **more)


# Definitions.


@pytest.mark.parametrize("risky", [refund, pay, train, forward], ids=lambda each: each.name)
@pytest.mark.parametrize("more", [{}, {"mode": "code"}], ids=["tools", "code"])
def test_a_risky_tool_without_approvals_is_refused_with_both_ways_out(risky: Tool, more: dict[str, Any]) -> None:
    made = clerk(system(risky).use(hitl), **more)
    with pytest.raises(DefinitionError) as refused:
        _ = made.agents
    for said in ("agent 'clerk'", risky.name, "approvals=True", "'hitl'", "unattended=True"):
        assert said in str(refused.value)


@pytest.mark.parametrize(
    "more",
    [{"tags": ["default", "hitl"]}, {"approvals": True}, {"unattended": True}],
    ids=["tag", "approvals", "meant"],
)
def test_an_agent_with_approvals_or_one_that_is_meant_to_be_unattended_is_fine(more: dict[str, Any]) -> None:
    made = clerk(system(refund).use(hitl), **more)
    assert made.risky_tools(made.agents["clerk"]) == (("refund",) if more.get("unattended") else ())


def test_the_hint_says_when_the_system_has_nothing_that_asks() -> None:
    with pytest.raises(DefinitionError, match="have the system use the middleware hitl"):
        _ = clerk(system(refund)).agents


def test_tools_of_low_risk_need_nothing() -> None:
    @tool
    async def look() -> str:
        return ""

    assert clerk(system(look)).agents["clerk"].unattended is False


def test_agents_that_are_defined_inside_of_another_are_checked_too() -> None:
    inner = Blueprint(name="inner", prompt="You refund.", tags=("money",))
    made = system().use(subagents, tags=["default"]).add_tool(refund, tags=["money"]).use(hitl)
    clerk(made, config={"subagents": {"subagents": [inner]}})
    with pytest.raises(DefinitionError, match="agent 'inner' has no approvals and would run refund"):
        _ = made.agents


def test_approvals_bring_the_tag_and_the_middleware_whichever_comes_first() -> None:
    brought = clerk(system(refund), approvals=True)
    assert brought.agents["clerk"].tags == ("default", "hitl")
    assert [mw.name for mw in brought.middleware] == ["hitl"]
    added_later = clerk(system(refund), approvals=True).use(hitl, tags=["more"])
    assert added_later.guards == ("hitl", "more")
    assert added_later.agents
    with pytest.raises(DefinitionError, match="registered twice"):
        added_later.use(hitl)


def test_what_contradicts_itself_is_refused() -> None:
    with pytest.raises(DefinitionError, match="both approvals=True and unattended=True"):
        clerk(system(refund), approvals=True, unattended=True)
    with pytest.raises(DefinitionError, match="approvals are True, or a list of tools"):
        clerk(system(refund), approvals="yes")


@pytest.mark.parametrize("model", ["demo:defualt", ["demo:instant", "demo:defualt"]])
def test_a_model_that_its_provider_does_not_have_is_refused(model: Any) -> None:
    made = AgentSystem("demo:default")
    with pytest.raises(DefinitionError, match="'demo:defualt'; that provider has default, instant"):
        _ = clerk(made, model=model).agents
    with pytest.raises(DefinitionError, match="demo:defualt"):
        _ = clerk(AgentSystem("demo:defualt")).agents
    assert clerk(AgentSystem("openai:gpt-of-tomorrow")).agents, "a provider's own list is not ours to close"


async def test_a_run_is_refused_a_model_that_its_provider_does_not_have(tmp_path: Path) -> None:
    async with open_thread(clerk(AgentSystem("demo:instant")), tmp_path / "t.db", agent="clerk") as thread:
        with pytest.raises(InvalidInput, match="demo:defualt"):
            await thread.invoke("go", model="demo:defualt")


# Tools that are known only when a thread is open.


class Tills(Middleware):
    """Registers a risky tool: when the thread is opened, or later."""

    name = "tills"
    tags = ("default",)

    def __init__(self, *, late: bool) -> None:
        self.late = late

    async def on_init(self, ctx: HookContext) -> None:
        if not self.late:
            ctx.register_tool(refund)

    async def on_thread_open(self, ctx: HookContext) -> None:
        if self.late:
            ctx.register_tool(refund)


async def test_no_thread_begins_whose_middleware_bring_risky_tools_without_approvals(tmp_path: Path) -> None:
    async with LocalRuntime(clerk(system().use(Tills(late=False))), tmp_path) as runtime:
        with pytest.raises(DefinitionError, match=r"would run refund \(high risk\) without asking a person"):
            await runtime.create_thread("clerk")
        assert runtime.thread_ids() == []


@pytest.mark.parametrize(("unattended", "asked"), [(False, ["five"]), (True, [])])
async def test_a_risky_tool_that_comes_later_asks_by_itself(unattended: bool, asked: list[str], tmp_path: Path) -> None:
    made = clerk(system().use(Tills(late=True)), unattended=unattended)
    async with LocalRuntime(made, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go")
        await thread.wait(5)
        assert pending(thread) == asked
        assert (await thread.state()).unattended_tools == (("refund",) if unattended else ())
        if asked:
            assert RAN == []
            assert "not said to be unattended" in thread.run().meta.pending_tool_calls[0].note
            await thread.approve()
        assert await ended(thread) == "done"
        assert RAN == ["refund 5"]


# Blueprints that are older than the rule.


def forget_the_question(path: Path) -> None:
    """Make a thread's file one of an earlier version, whose blueprints do not say whether they are unattended."""
    with sqlite3.connect(path) as db:
        (stored,) = db.execute("SELECT value FROM meta WHERE key = 'blueprint'").fetchone()
        blueprint = json.loads(stored)
        del blueprint["unattended"]
        db.execute("UPDATE meta SET value = ? WHERE key = 'blueprint'", (json.dumps(blueprint),))


async def test_a_thread_of_an_older_blueprint_runs_and_warns(tmp_path: Path) -> None:
    made = clerk(system(refund), unattended=True)
    async with LocalRuntime(made, tmp_path) as runtime:
        await runtime.create_thread("clerk", thread_id="old")
    forget_the_question(tmp_path / "old.db")
    async with LocalRuntime(made, tmp_path) as runtime:
        thread: Thread = await runtime.thread("old")
        assert thread.blueprint.unattended is None
        await thread.invoke("go")
        assert await ended(thread) == "done"
        assert RAN == ["refund 5"]
        (warning,) = thread.run().meta.warnings
        assert warning.kind == "unattended" and warning.message.startswith("refund would need a person's approval")
        assert len(await events(thread, EventType.RUNTIME_WARNING)) == 1
        assert (await thread.state()).unattended_tools == ("refund",)
