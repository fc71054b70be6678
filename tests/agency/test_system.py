"""What is wrong with a system is said before anything runs, and what an agent gets follows from its tags alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, JsonValue

from agency import (
    AgentSystem,
    Blueprint,
    CallTool,
    CodeResult,
    DefinitionError,
    HookContext,
    InvalidInput,
    Limits,
    LocalRuntime,
    Middleware,
    NotFound,
    Plan,
    open_thread,
    tool,
)
from agency.testing import ScriptedModel
from middleware import hitl, planning, subagents


class GreetingConfig(BaseModel):
    model_config = ConfigDict(extra="forbid")

    words: int = 1


class Greeting(Middleware[GreetingConfig]):
    name = "greeting"
    tags = ("polite",)
    config_model = GreetingConfig


class Parting(Middleware):
    name = "parting"


@tool
def look(where: str) -> str:
    return where


@tool
def leap(how_far: int) -> str:
    return str(how_far)


def walk(steps: int) -> str:
    """Walk.

    Args:
        steps: How many.
    """
    return f"walked {steps}"


class Runner:
    async def run(self, code: str, state: JsonValue, call_tool: CallTool) -> CodeResult:
        return CodeResult(output="")


def system() -> AgentSystem:
    return AgentSystem("scripted:any", providers={"scripted": ScriptedModel(["hello"])})


def add_agent(to: AgentSystem, name: str = "support", **fields: Any) -> AgentSystem:
    return to.add_agent(**{"name": name, "description": "Helps.", "prompt": "You help.", **fields})


def tool_names(made: AgentSystem, agent: str) -> list[str]:
    return [each.name for each in made.tools_for(made.agents[agent])]


def middleware_names(made: AgentSystem, agent: str) -> list[str]:
    return [each.name for each, _ in made.middleware_for(made.agents[agent])]


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


# Said at the definition.


def test_a_second_tool_of_the_same_name_is_refused_whatever_its_tags() -> None:
    @tool(name="look")
    def glance(where: str) -> str:
        return where

    with pytest.raises(DefinitionError, match="tool 'look' is registered twice"):
        system().add_tool(look, tags=["a"]).add_tool(glance, tags=["b"])


def test_a_second_middleware_of_the_same_name_is_refused() -> None:
    with pytest.raises(DefinitionError, match="middleware 'greeting' is registered twice"):
        system().use(Greeting()).use(Greeting(), tags=["other"])


def test_a_second_agent_of_the_same_name_is_refused() -> None:
    with pytest.raises(DefinitionError, match="agent 'support' is defined twice"):
        add_agent(add_agent(system()))


def test_an_agent_is_added_as_a_blueprint_or_as_what_one_is_made_of() -> None:
    clerk = Blueprint(
        name="clerk", description="…", prompt="…", tags=("default",), limits=Limits(turns=3), unattended=False
    )
    fields = {"name": "clerk", "description": "…", "prompt": "…", "limits": {"turns": 3}}
    assert AgentSystem("demo:instant").add_agent(clerk).agents == {"clerk": clerk}
    assert AgentSystem("demo:instant").add_agent(**fields).agents["clerk"].limits == Limits(turns=3)  # type: ignore[call-overload]
    for wrong in ((clerk, clerk), ("clerk",)):
        with pytest.raises(DefinitionError, match="a Blueprint, or keywords"):
            AgentSystem("demo:x").add_agent(*wrong)
    with pytest.raises(DefinitionError, match="a Blueprint, or keywords"):
        AgentSystem("demo:x").add_agent(clerk, **{**fields, "name": "other"})
    with pytest.raises(DefinitionError, match="defined twice"):
        AgentSystem("demo:x").add_agent(clerk).add_agent(clerk)


def test_the_stock_middleware_are_refused_a_second_time() -> None:
    with pytest.raises(DefinitionError, match="middleware 'planning' is registered twice"):
        system().defaults().defaults()


def test_a_refused_definition_leaves_the_first_one_in_place() -> None:
    made = add_agent(system().add_tool(look))
    with pytest.raises(DefinitionError):
        made.add_tool(look, tags=["other"])
    with pytest.raises(DefinitionError):
        add_agent(made, prompt="Another.")
    assert tool_names(made, "support") == ["look"]
    assert made.agents["support"].prompt == "You help."


@pytest.mark.parametrize("name", ["", "two words", "a/b", "ünïcode", "line\n", "x" * 65])
def test_an_agents_name_is_letters_digits_dash_and_underscore(name: str) -> None:
    with pytest.raises(DefinitionError, match="name"):
        add_agent(system(), name)


@pytest.mark.parametrize("tag", ["", "two words", "a/b", "line\n"])
def test_a_tag_is_letters_digits_dash_and_underscore(tag: str) -> None:
    with pytest.raises(DefinitionError, match=r"tool 'look'.*tags"):
        system().add_tool(look, tags=["good", tag])
    with pytest.raises(DefinitionError, match=r"middleware 'parting'.*tags"):
        system().use(Parting(), tags=[tag])
    with pytest.raises(DefinitionError, match="agent 'support': tags"):
        add_agent(system(), tags=[tag])


def test_what_has_no_tags_is_refused_because_no_agent_would_get_it() -> None:
    with pytest.raises(DefinitionError, match="tool 'look' has no tags"):
        system().add_tool(look, tags=[])
    with pytest.raises(DefinitionError, match="middleware 'parting' has no tags"):
        system().use(Parting())


def test_an_agent_without_a_prompt_is_refused() -> None:
    with pytest.raises(DefinitionError, match="agent 'support': prompt"):
        add_agent(system(), prompt="")


def test_a_model_without_a_provider_belongs_to_that_of_the_default_model() -> None:
    made = add_agent(AgentSystem("openai:gpt-5"), model=["gpt-5-mini", "demo:default"])
    assert made.agents["support"].model == ("gpt-5-mini", "demo:default")
    assert [each.model for each in made.chain(made.agents["support"].model)] == ["openai:gpt-5-mini", "demo:default"]
    assert [each.model for each in made.chain(None)] == ["openai:gpt-5"]
    assert made.model("gpt-5-mini") == made.model("openai:gpt-5-mini")


def test_an_agent_needs_no_description() -> None:
    made = system().add_agent(name="support", prompt="You help.")
    assert made.agents["support"].description == ""


def test_a_default_model_names_its_provider() -> None:
    for wrong in ("gpt-5", "openai: gpt", "openai:gpt "):
        with pytest.raises(DefinitionError, match="default_model"):
            AgentSystem(wrong)


@pytest.mark.parametrize(
    "model",
    ["openai:", ":gpt-5", "Open AI:gpt", "", "openai:gpt\n", "gpt 5", "openai: gpt", "openai:gpt ", " openai:gpt"],
)
def test_a_models_name_reads_provider_colon_model(model: str) -> None:
    with pytest.raises(DefinitionError, match="agent 'support': model"):
        add_agent(system(), model=model)


def test_a_model_of_an_unknown_provider_is_refused_naming_those_there_are() -> None:
    with pytest.raises(DefinitionError, match=r"no provider named 'nobody'.*anthropic.*demo.*openai.*scripted"):
        system().model("nobody:at-home")


def test_a_models_name_finds_its_provider_and_keeps_the_rest() -> None:
    model = ScriptedModel([])
    made = AgentSystem("scripted:any", providers={"scripted": model})
    assert made.model("scripted:a:b") == (model, "a:b")


@pytest.mark.parametrize("field", [{"status": "retired"}, {"limits": {"turns": 0}}, {"limits": {"steps": 5}}])
def test_an_agents_other_fields_are_checked_and_named(field: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match=f"agent 'support': {next(iter(field))}"):
        add_agent(system(), **field)


def test_code_mode_needs_a_code_runner() -> None:
    with pytest.raises(DefinitionError, match="agent 'support' works in code mode: give AgentSystem a code_runner"):
        add_agent(system(), mode="code")
    made = AgentSystem("demo:default", code_runner=Runner())
    assert add_agent(made, mode="code").agents["support"].mode == "code"


@pytest.mark.parametrize("thing", [Greeting, look, "hitl", None], ids=["class", "tool", "name", "nothing"])
def test_only_an_instance_of_middleware_can_be_used(thing: Any) -> None:
    with pytest.raises(DefinitionError, match="use\\(\\) takes an instance of Middleware"):
        system().use(thing, tags=["default"])


def test_a_middleware_without_a_name_is_refused() -> None:
    class Nameless(Middleware):
        pass

    with pytest.raises(DefinitionError, match="Nameless"):
        system().use(Nameless(), tags=["default"])


# Said when the system is first used.


def test_a_tag_that_nothing_has_is_refused_naming_those_there_are() -> None:
    made = add_agent(system().add_tool(look, tags=["eyes"]), tags=["eyes", "ears"])
    with pytest.raises(DefinitionError, match=r"agent 'support': .*\['ears'\].*\['eyes'\]"):
        _ = made.agents


def test_the_tag_default_needs_nothing_behind_it() -> None:
    assert list(add_agent(system()).agents) == ["support"]


def test_a_subagent_that_does_not_exist_is_refused() -> None:
    made = add_agent(system().defaults(), config={"subagents": {"subagents": ["support", "ghost"]}})
    with pytest.raises(DefinitionError, match=r"agent 'support': .*do not exist: \['ghost'\]"):
        _ = made.agents


def test_a_subagent_may_be_defined_after_the_agent_that_names_it() -> None:
    made = add_agent(system().use(subagents), tags=["subagents"], config={"subagents": {"subagents": ["later"]}})
    assert list(add_agent(made, "later").agents) == ["support", "later"]


def test_configuration_for_a_middleware_that_the_agent_does_not_get_is_refused() -> None:
    made = add_agent(system().use(Greeting()), config={"greeting": {"words": 2}})
    with pytest.raises(
        DefinitionError, match=r"agent 'support': config.greeting has no effect, .* gets no middleware of that name"
    ):
        _ = made.agents


@pytest.mark.parametrize(
    ("section", "problem"),
    [({"words": "many"}, "words: "), ({"wrods": 2}, "wrods: "), ("loud", ""), (None, "")],
)
def test_a_section_that_the_middleware_does_not_understand_is_refused(section: JsonValue, problem: str) -> None:
    made = add_agent(system().use(Greeting()), tags=["polite"], config={"greeting": section})
    with pytest.raises(DefinitionError, match=f"agent 'support': config.greeting: {problem}"):
        _ = made.agents


def test_a_middlewares_own_check_speaks_for_the_agent() -> None:
    class Picky(Middleware):
        name = "picky"
        tags = ("default",)

        def check(self, config: None, agents: Mapping[str, object]) -> None:
            raise DefinitionError(f"not with {sorted(agents)}")

    made = add_agent(system().use(Picky()))
    with pytest.raises(DefinitionError, match=r"agent 'support': not with \['support'\]"):
        _ = made.agents


def test_what_is_added_later_is_checked_too() -> None:
    made = add_agent(system().add_tool(look))
    assert made.agents
    add_agent(made, "second", tags=["nobody"])
    with pytest.raises(DefinitionError, match="agent 'second'"):
        _ = made.agents


async def test_a_wrong_system_shows_before_anything_runs(tmp_path: Path) -> None:
    made = add_agent(system(), tags=["nobody"])
    with pytest.raises(DefinitionError, match="nobody"):
        async with LocalRuntime(made, tmp_path / "threads"):
            raise AssertionError("it was entered")
    with pytest.raises(DefinitionError, match="nobody"):
        async with open_thread(made, tmp_path / "thread.db", agent="support"):
            raise AssertionError("it was opened")
    assert files(tmp_path) == []


# Who gets what.


def test_an_agent_gets_the_tools_that_share_a_tag_in_the_order_of_registration() -> None:
    made = system().add_tool(leap, tags=["b", "a"]).add_tool(look, tags=["a"]).add_tool(walk, tags=["c"])
    add_agent(made, "both", tags=["a", "b"])
    add_agent(made, "one", tags=["c"])
    add_agent(made, "none")
    assert tool_names(made, "both") == ["leap", "look"]
    assert tool_names(made, "one") == ["walk"]
    assert tool_names(made, "none") == []


def test_what_meets_an_agent_in_several_tags_is_selected_once() -> None:
    made = system().add_tool(look, tags=["a", "b"]).use(Greeting(), tags=["a", "b", "a"])
    add_agent(made, tags=["a", "b", "a", "polite"])
    assert tool_names(made, "support") == ["look"]
    assert middleware_names(made, "support") == ["greeting"]


def test_middleware_come_in_the_order_of_registration_not_of_the_agents_tags() -> None:
    made = system().use(Parting(), tags=["late"]).use(hitl).use(Greeting()).use(planning)
    add_agent(made, tags=["planning", "polite", "hitl", "late"])
    assert middleware_names(made, "support") == ["parting", "hitl", "greeting", "planning"]


def test_a_middlewares_tags_are_its_own_and_those_given() -> None:
    made = system().use(Greeting(), tags=["friendly"])
    add_agent(made, "own", tags=["polite"])
    add_agent(made, "given", tags=["friendly"])
    add_agent(made, "neither")
    assert [middleware_names(made, name) for name in ("own", "given", "neither")] == [["greeting"], ["greeting"], []]


def test_the_stock_middleware_are_planning_filesystem_and_subagents_for_the_tag_default() -> None:
    made = add_agent(system().use(Greeting()).defaults(), "standard")
    add_agent(made, "planner", tags=["planning"])
    add_agent(made, "other", tags=["polite"])
    assert middleware_names(made, "standard") == ["planning", "filesystem", "subagents"]
    assert middleware_names(made, "planner") == ["planning"]
    assert middleware_names(made, "other") == ["greeting"]


def test_each_middleware_gets_its_own_section_validated() -> None:
    made = add_agent(system().use(Greeting()).use(planning), tags=["polite"], config={"greeting": {"words": "3"}})
    add_agent(made, "plain", tags=["polite", "planning"])
    assert [config for _, config in made.middleware_for(made.agents["support"])] == [GreetingConfig(words=3)]
    assert [config for _, config in made.middleware_for(made.agents["plain"])] == [GreetingConfig(words=1), None]


def test_a_plain_function_is_made_a_tool() -> None:
    made = add_agent(system().add_tool(walk))
    (only,) = made.tools_for(made.agents["support"])
    assert (only.name, only.spec.description) == ("walk", "Walk.")
    assert only.spec.parameters["properties"] == {"steps": {"type": "integer", "description": "How many."}}
    assert only.bind({"steps": 3}) == {"steps": 3}


def test_a_plain_function_may_name_classes_that_are_local_to_where_it_is_added() -> None:
    class Route(BaseModel):
        steps: int

    def follow(route: Route) -> str:
        return ""

    made = add_agent(system().add_tool(follow))
    assert tool_names(made, "support") == ["follow"]


def test_a_plain_function_that_cannot_be_a_tool_is_refused_where_it_is_added() -> None:
    def vague(*things: str) -> str:
        return ""

    with pytest.raises(DefinitionError, match=f"'vague'.*{__file__}"):
        system().add_tool(vague)


async def test_a_thread_has_the_agents_tools_then_those_of_its_middleware(tmp_path: Path) -> None:
    class Registers(Middleware):
        name = "registers"
        tags = ("default",)

        async def on_init(self, ctx: HookContext) -> None:
            ctx.register_tool(leap)

        async def before_model(self, ctx: HookContext, plan: Plan) -> None:
            plan.add_prompt("Leap.")

    made = add_agent(system().use(Registers()).add_tool(look))
    async with LocalRuntime(made, tmp_path) as runtime:
        thread = await runtime.create_thread("support")
        assert [spec.name for spec in (await thread.state()).tools] == ["look", "leap"]


# Who may start.


@pytest.mark.parametrize("status", ["draft", "disabled"])
async def test_an_agent_that_is_not_active_starts_no_thread(
    status: Literal["draft", "disabled"], tmp_path: Path
) -> None:
    made = add_agent(system(), status=status)
    async with LocalRuntime(made, tmp_path) as runtime:
        with pytest.raises(InvalidInput, match=f"'support' is {status}"):
            await runtime.create_thread("support")
        assert runtime.agents() == {}
        assert runtime.thread_ids() == []
    assert files(tmp_path) == []


async def test_a_thread_keeps_the_blueprint_it_began_with(tmp_path: Path) -> None:
    async with LocalRuntime(add_agent(system()), tmp_path) as runtime:
        await runtime.create_thread("support", thread_id="old")
    later = add_agent(system(), prompt="Changed.", status="disabled")
    async with LocalRuntime(later, tmp_path) as runtime:
        thread = await runtime.thread("old")
        assert thread.blueprint.prompt == "You help."
        await thread.invoke("still there?")
        assert (await thread.wait(timeout=5)).data == "hello"


async def test_an_agent_that_does_not_exist_starts_no_thread(tmp_path: Path) -> None:
    async with LocalRuntime(add_agent(system()), tmp_path) as runtime:
        with pytest.raises(NotFound, match="no agent 'ghost'; there are support"):
            await runtime.create_thread("ghost")


@pytest.mark.parametrize("thread_id", ["../up", "a b", "x" * 65, "a.b", "line\n"])
async def test_a_threads_id_is_letters_digits_dash_and_underscore(thread_id: str, tmp_path: Path) -> None:
    async with LocalRuntime(add_agent(system()), tmp_path) as runtime:
        with pytest.raises(InvalidInput, match="a thread's id"):
            await runtime.create_thread("support", thread_id=thread_id)
        assert runtime.thread_ids() == []


async def test_a_thread_is_created_once(tmp_path: Path) -> None:
    async with LocalRuntime(add_agent(system()), tmp_path) as runtime:
        await runtime.create_thread("support", thread_id="one")
        with pytest.raises(InvalidInput, match="there is a thread 'one' already"):
            await runtime.create_thread("support", thread_id="one")
