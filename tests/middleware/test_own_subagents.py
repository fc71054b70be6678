"""Agents that give work to copies of themselves, and to agents that only their own configuration defines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agency import AgentSystem, Blueprint, DefinitionError, LocalRuntime, ModelRequest
from agency.testing import Line, ScriptedModel
from middleware import planning, subagents
from tests.support.families import FamilyRuntime, Part, answer_of, cast, links, results, start, task

SCOUT: dict[str, Any] = {"name": "scout", "description": "Finds things.", "prompt": "scout, who finds things"}


def of_two(first: Line, then: Line) -> Part:
    """What an agent says that may be a copy: the one that was asked by a person, and its copy."""

    def says(request: ModelRequest) -> Line:
        if request.messages[0].content != "go":
            return f"copied: {request.messages[0].content}"
        return first if len(request.messages) == 1 else then

    return says


@pytest.mark.parametrize("name", ["boss", "general-purpose"])
async def test_an_agent_gives_work_to_a_copy_of_itself(name: str, tmp_path: Path) -> None:
    async with FamilyRuntime(cast({"boss": of_two(task(name), "thanks")}), tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "thanks"
        assert await results(boss) == {"task": "copied: work for task"}
        (link,) = await links(boss)
        assert link["agentType"] == "boss"
        copy = await runtime.child_of(boss)
        assert copy.blueprint == boss.blueprint


async def test_a_copy_has_the_blueprint_that_its_original_began_with(tmp_path: Path) -> None:
    system = cast({"boss": of_two(task("boss"), "thanks")})
    async with LocalRuntime(system, tmp_path) as runtime:
        boss = await runtime.create_thread("boss", thread_id="boss")
    changed = system.agents["boss"].model_copy(update={"prompt": "boss, changed", "status": "disabled"})
    system._agents["boss"] = changed
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await runtime.thread("boss")
        await boss.invoke("go")
        assert await answer_of(boss) == "thanks"
        assert (await runtime.child_of(boss)).blueprint.prompt == "boss"


async def test_a_copy_reports_in_words_where_its_original_must_hand_in_a_value(tmp_path: Path) -> None:
    system = cast({"boss": of_two(task("boss"), '{"found": 1}')})
    schema = {"type": "object", "properties": {"found": {"type": "integer"}}, "required": ["found"]}
    system._agents["boss"] = system.agents["boss"].model_copy(update={"output_schema": schema})
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == {"found": 1}
        assert await results(boss) == {"task": "copied: work for task"}


async def test_an_agent_that_is_called_general_purpose_is_that_agent(tmp_path: Path) -> None:
    parts: dict[str, Part] = {"boss": [task("general-purpose"), "thanks"], "general-purpose": ["I am no copy"]}
    async with FamilyRuntime(cast(parts), tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "thanks"
        assert await results(boss) == {"task": "I am no copy"}
        (spec,) = [spec for spec in (await boss.state()).tools if spec.name == "task"]
    properties: Any = spec.parameters["properties"]
    assert properties["subagentType"]["enum"] == ["general-purpose", "boss"]


async def test_copies_of_copies_go_only_so_deep_and_the_tool_says_how_deep(tmp_path: Path) -> None:
    def deeper(request: ModelRequest) -> Line:
        last = request.messages[-1]
        return last.content if last.role == "tool" else task("general-purpose", call_id=f"t{request.key[:12]}")

    system = cast({"boss": deeper}, config={"boss": {"subagents": {"maxDepth": 2, "maxRunning": 7}}})
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await start(runtime)
        assert str(await answer_of(boss)).startswith("Error: resource_limit: agents may start agents 2 deep")
        assert len(runtime.thread_ids()) == 3
        child = await runtime.child_of(boss)
        (spec,) = [spec for spec in (await child.state()).tools if spec.name == "task"]
    assert "- boss or general-purpose: A copy of yourself" in spec.description
    assert "At most 7 tasks of yours work at the same time." in spec.description
    assert "Agents may start agents 2 deep; you are 1 deep." in spec.description


# Agents of one's own.


async def test_an_agent_gives_work_to_an_agent_that_its_configuration_defines(tmp_path: Path) -> None:
    config = {"boss": {"subagents": {"subagents": [SCOUT, "worker", "general-purpose"]}}}
    parts: dict[str, Part] = {"boss": [task("scout"), "thanks"], "worker": []}
    system = cast(parts, config=config)
    parts["scout,"] = lambda request: f"found: {request.messages[0].content}"
    async with FamilyRuntime(system, tmp_path) as runtime:
        boss = await start(runtime)
        assert await answer_of(boss) == "thanks"
        assert await results(boss) == {"task": "found: work for task"}
        assert [link["agentType"] for link in await links(boss)] == ["scout"]
        (spec,) = [spec for spec in (await boss.state()).tools if spec.name == "task"]
        worker = await runtime.create_thread("worker")
        (other,) = [spec for spec in (await worker.state()).tools if spec.name == "task"]
    properties: Any = spec.parameters["properties"]
    assert properties["subagentType"]["enum"] == ["scout", "worker", "general-purpose"]
    assert "- scout: Finds things." in spec.description
    assert "scout" not in other.description


async def test_blueprints_can_stand_in_a_configuration_as_they_are(tmp_path: Path) -> None:
    own = Blueprint(**SCOUT, limits={"turns": 3})  # type: ignore[arg-type]  # pydantic reads it
    system = cast({"boss": ["hello"]}, config={"boss": {"subagents": {"subagents": [own]}}})
    config: dict[str, Any] = system.agents["boss"].config
    (stored,) = config["subagents"]["subagents"]
    assert Blueprint.model_validate(stored) == own
    assert Blueprint.model_validate_json(system.agents["boss"].model_dump_json()) == system.agents["boss"]


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ([{"name": "scout"}], "subagents.0.blueprint.prompt: Field required"),
        ([7], "subagents.0.blueprint: Input should be a valid dictionary"),
        ([SCOUT, SCOUT], "more than one agent of the name scout"),
        ([SCOUT, "ghost"], r"names agents that do not exist: \['ghost'\]"),
        ([{**SCOUT, "tags": ["nowhere"]}], r"agent 'boss': agent 'scout': no tool or middleware has the tags"),
        ([{**SCOUT, "model": "nowhere:any"}], "no provider named 'nowhere'"),
        ([{**SCOUT, "config": {"subagents": {"subagents": ["ghost"]}}}], "agent 'scout': config.subagents names"),
    ],
)
def test_agents_of_a_configuration_are_checked_like_those_of_the_system(listed: Any, why: str) -> None:
    system = cast({"boss": ["hello"]}, config={"boss": {"subagents": {"subagents": listed}}})
    with pytest.raises(DefinitionError, match=why):
        assert system.agents


async def test_an_agent_of_a_configuration_gets_tools_and_middleware_by_its_tags(tmp_path: Path) -> None:
    def says(request: ModelRequest) -> Line:
        if request.system.startswith("scout"):
            return ", ".join(sorted(spec.name for spec in request.tools if spec.name == "write_todos"))
        return task("scout") if len(request.messages) == 1 else request.messages[-1].content

    system = AgentSystem("scripted:any", providers={"scripted": ScriptedModel(says)})
    system.use(subagents, tags=["default"]).use(planning)
    config: Any = {"subagents": {"subagents": [{**SCOUT, "tags": ["planning"]}]}}
    system.add_agent(name="boss", description="Leads.", prompt="boss", config=config)
    async with FamilyRuntime(system, tmp_path) as runtime:
        assert await answer_of(await start(runtime)) == "write_todos"
