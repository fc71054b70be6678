"""Tools, middleware and approvals that an agent names itself, beside those that its tags select."""

from __future__ import annotations

from typing import Any

import pytest

from agency import AgentSystem, Blueprint, DefinitionError, HookContext, Middleware, Plan, RunUnfinished, tool
from agency.testing import Line, ScriptedModel, call
from middleware import hitl


@tool
async def git_log() -> str:
    """What has changed."""
    return "a fix"


@tool(risk="high")
async def publish(text: str) -> str:
    """Publish."""
    return f"published {text}"


@tool(risk="medium")
async def draft(text: str) -> str:
    """Put a draft up."""
    return f"drafted {text}"


class Tone(Middleware):
    name = "tone"
    tags = ("tone",)

    async def before_model(self, ctx: HookContext, plan: Plan) -> None:
        plan.add_prompt("Be brief.")


def system_of(*script: Line) -> tuple[AgentSystem, ScriptedModel]:
    model = ScriptedModel(script or ["done"])
    return AgentSystem("scripted:any", providers={"scripted": model}), model


def agent(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": "Writes.", "prompt": "You write.", **more}


def tools_of(system: AgentSystem, name: str) -> list[str]:
    return [each.name for each in system.tools_for(system.agents[name])]


def test_an_agent_has_its_own_tools_and_those_of_its_tags_and_others_do_not() -> None:
    def word_count(text: str) -> int:
        """Count words."""
        return len(text.split())

    system, _ = system_of()
    system.add_tool(draft, tags=["drafts"]).add_agent(
        **agent("editor", tools=[git_log, word_count, "draft"], approvals=True)
    )
    system.add_agent(**agent("reader", tags=["default"])).add_agent(**agent("counter", tags=[], tools=["word_count"]))

    assert tools_of(system, "editor") == ["draft", "git_log", "word_count"]
    assert tools_of(system, "reader") == []
    assert tools_of(system, "counter") == ["word_count"]
    assert system.agents["editor"].tools == ("git_log", "word_count", "draft")


def test_a_blueprint_is_data_and_names_what_it_has() -> None:
    system, _ = system_of()
    system.add_agent(**agent("editor", tools=[git_log], middleware=[Tone()]))
    stored = Blueprint.model_validate_json(system.agents["editor"].model_dump_json())

    assert (stored.tools, stored.middleware) == (("git_log",), ("tone",))
    assert [each.name for each in system.tools_for(stored)] == ["git_log"]
    assert [mw.name for mw, _ in system.middleware_for(stored)] == ["tone"]
    assert system.tool("git_log") is git_log


async def test_a_middleware_is_one_agents_own_until_another_one_names_it_or_the_system_uses_it() -> None:
    system, model = system_of()
    tone = Tone()
    system.add_agent(**agent("editor", middleware=[tone]))
    system.add_agent(**agent("other"))
    await system.run("editor", "Hello.")
    await system.run("other", "Hello.")
    assert ["Be brief." in request.system for request in model.requests] == [True, False]

    system.use(tone).add_agent(**agent("third", tags=["tone"]))
    await system.run("third", "Hello.")
    assert "Be brief." in model.requests[-1].system


def test_what_an_agent_brings_can_be_shared_and_added_for_others() -> None:
    system, _ = system_of()
    system.add_agent(**agent("editor", tools=[git_log])).add_agent(**agent("writer", tools=[git_log]))
    system.add_tool(git_log, tags=["git"]).add_agent(**agent("reader", tags=["git"]))

    assert [tools_of(system, name) for name in ("editor", "writer", "reader")] == [["git_log"]] * 3


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"tools": [tool(name="git_log")(lambda: "another")]},
            "brings a tool 'git_log', and the system has another one",
        ),
        ({"middleware": [Tone()]}, "brings a middleware 'tone', and the system has another one: share one instance"),
        ({"tools": ["git_lok"]}, "there is no tool 'git_lok' to name; there are: git_log"),
        ({"middleware": ["tune"]}, "there is no middleware 'tune' to name; there are: tone"),
        ({"tools": "git_log"}, "tools are a list"),
        ({"tools": [7]}, "a tool is a function, a Tool or the name of one, not 7"),
        ({"middleware": [Tone]}, "a middleware is an instance of one or its name"),
        ({"tools": [publish], "approvals": "publish"}, "approvals are True, or a list"),
        ({"tools": [publish], "approvals": []}, "approvals are True, or a list"),
        ({"tools": [publish], "approvals": ["publsh"]}, "names tools that the agent does not have"),
        ({"tools": [publish, draft], "approvals": ["publish"]}, r"lists other approvals and would run draft \(med"),
        ({"tools": [publish], "approvals": [publish], "config": {"hitl": {"tools": []}}}, "do it in one of them"),
    ],
)
def test_what_cannot_be_is_refused_and_said(fields: dict[str, Any], said: str) -> None:
    system, _ = system_of()
    system.add_agent(**agent("first", tools=[git_log], middleware=[Tone()]))
    with pytest.raises(DefinitionError, match=said):
        assert system.add_agent(**agent("second", **fields)).agents


async def test_a_list_of_approvals_asks_about_those_tools_alone() -> None:
    calls: list[Line] = [call("draft", text="1"), call("publish", call_id="p", text="1"), "done"]
    system, _ = system_of(*calls)
    system.add_agent(**agent("editor", tools=[publish, draft], approvals=[publish], unattended=True))

    with pytest.raises(RunUnfinished, match="publish") as raised:
        await system.run("editor", "Release.")
    assert raised.value.waits == ("p",)
    assert system.risky_tools(system.agents["editor"]) == ("draft",)


async def test_low_risk_asks_too_if_it_is_listed() -> None:
    system, _ = system_of(call("git_log"), "done")
    system.add_agent(**agent("editor", tools=[git_log], approvals=["git_log"]))
    with pytest.raises(RunUnfinished, match="git_log"):
        await system.run("editor", "Release.")


async def test_approvals_and_the_middleware_itself_go_together() -> None:
    system, _ = system_of(call("publish", text="1"), "done")
    system.add_agent(**agent("first", tools=[publish], middleware=[hitl])).use(hitl)
    system.add_agent(**agent("second", tools=["publish"], approvals=True))
    for name in ("first", "second"):
        with pytest.raises(RunUnfinished, match="publish"):
            await system.run(name, "Release.")
