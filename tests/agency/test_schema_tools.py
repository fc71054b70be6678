"""Tools made of a JSON schema: their arguments are checked against it, and they are treated like any other tool."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from agency import (
    AgentSystem,
    DefinitionError,
    Edit,
    EventType,
    InvalidInput,
    RetryPolicy,
    Tool,
    ToolContext,
    ToolError,
    open_thread,
)
from agency.define.tools import SchemaCall
from agency.testing import ScriptedModel, call
from middleware import hitl

SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "order": {"type": "integer", "minimum": 1},
        "size": {"enum": ["small", "large"]},
        "pin": {"type": "string", "minLength": 4, "writeOnly": True},
    },
    "required": ["order"],
    "additionalProperties": False,
}


async def echo(args: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
    return {"args": args, "attempt": ctx.attempt}


def made(**options: Any) -> Tool:
    return Tool.from_schema("bake", "Bake an order.", SCHEMA, echo, **options)


def system_with(tool: Tool, *lines: Any, **agent: Any) -> tuple[AgentSystem, ScriptedModel]:
    model = ScriptedModel([*lines, "done"])
    system = AgentSystem("scripted:any", providers={"scripted": model}).add_tool(tool)
    return system, model


async def results(system: AgentSystem, path: Path) -> list[str]:
    system.add_agent(name="clerk", description="Does as told.", prompt="You are a clerk.")
    async with open_thread(system, path / "clerk.db", agent="clerk") as thread:
        await thread.invoke("go")
        run = await thread.wait(timeout=10)
        assert run.status == "completed", run
        return [message.content for message in (await thread.state()).messages if message.role == "tool"]


# Defining one.


def test_the_model_sees_the_schema_as_it_is() -> None:
    tool = made()
    assert (tool.spec.name, tool.spec.description, tool.spec.parameters) == ("bake", "Bake an order.", SCHEMA)
    assert tool.is_async


def test_a_schema_without_a_type_is_that_of_an_object() -> None:
    assert Tool.from_schema("ping", "", {}, echo).spec.parameters == {"type": "object"}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "string"}, 'its schema must be of "type": "object"'),
        ({"type": "object", "properties": {"a": {"type": "nothing"}}}, "its schema cannot be used"),
        ({"properties": {"a": {"$ref": "https://example.org/schema.json"}}}, "it can only refer to its own parts"),
        ({"properties": {"a": {1, 2}}}, "wrong schema"),
        ('{"type": "object"}', "its schema is a dict that describes an object"),
        (True, "its schema is a dict that describes an object"),
    ],
)
def test_a_schema_that_cannot_be_used_fails_where_the_tool_is_defined(schema: Any, why: str) -> None:
    with pytest.raises(DefinitionError, match=f"tool 'bake': .*{why}"):
        Tool.from_schema("bake", "", schema, echo)


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("no spaces", {}, "a tool's name has 1 to 64 letters"),
        ("bake", {"in_doubt": "ask"}, "in_doubt is for tools with idempotent=False"),
        ("bake", {"timeout": 0}, "timeout: Input should be greater than 0"),
        ("bake", {"rays": {}}, "rays: Extra inputs are not permitted"),
    ],
)
def test_names_and_options_are_checked_as_those_of_any_tool(name: str, options: Any, why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        Tool.from_schema(name, "", SCHEMA, echo, **options)


def test_a_description_that_utf_8_cannot_hold_keeps_no_run_from_working() -> None:
    Tool.from_schema("bake", "It bakes \ud83c.", SCHEMA, echo).spec.description.encode()


def test_what_is_called_takes_the_arguments_and_the_context() -> None:
    with pytest.raises(DefinitionError, match="`call` is a function of the arguments and the context"):
        Tool.from_schema("bake", "", SCHEMA, lambda args: args)  # type: ignore[arg-type,misc]


def test_what_is_called_must_be_callable() -> None:
    with pytest.raises(DefinitionError, match="`call` is a function of the arguments and the context"):
        Tool.from_schema("bake", "", SCHEMA, "echo")  # type: ignore[arg-type]  # that is the point


async def test_it_can_be_called_from_other_python_code() -> None:
    assert (await made()({"order": 7}, type("Context", (), {"attempt": 1})()))["args"] == {"order": 7}


# Calling it.


async def test_it_gets_the_arguments_as_the_model_has_sent_them(tmp_path: Path) -> None:
    system, _ = system_with(made(), call("bake", order=7, size="small"))
    assert await results(system, tmp_path) == ['{"args":{"order":7,"size":"small"},"attempt":1}']


async def test_sync_functions_partials_and_callable_objects_are_called_too(tmp_path: Path) -> None:
    class Oven:
        async def __call__(self, args: dict[str, Any], ctx: ToolContext) -> str:
            return "by an object"

    def plain(args: dict[str, Any], ctx: ToolContext) -> str:
        return "by a function"

    async def of_two(greeting: str, args: dict[str, Any], ctx: ToolContext) -> str:
        return greeting

    functions: list[SchemaCall] = [Oven(), plain, functools.partial(of_two, "by a partial")]
    for number, each in enumerate(functions):
        system, _ = system_with(Tool.from_schema("bake", "", SCHEMA, each), call("bake", order=7))
        (tmp_path / str(number)).mkdir()
        assert (await results(system, tmp_path / str(number)))[0].startswith("by a")


async def test_arguments_that_do_not_fit_are_refused_and_the_model_reads_why(tmp_path: Path) -> None:
    system, _ = system_with(made(), call("bake", order=0, size="huge", icing=True))
    (said,) = await results(system, tmp_path)
    assert "wrong arguments for bake" in said
    assert "$.order: the value is less than the minimum of 1" in said
    assert '$.size: the value is not one of "small" or "large"' in said
    assert "'icing' was unexpected" in said


def test_what_is_wrong_is_said_without_the_value_which_may_be_a_secret() -> None:
    with pytest.raises(InvalidInput, match=r"\$\.pin: ") as refused:
        made().bind({"order": 7, "pin": "abc"})
    assert "abc" not in str(refused.value)
    with pytest.raises(InvalidInput, match="must be a JSON object"):
        made().bind("order 7")


async def test_secret_arguments_are_hidden_from_events(tmp_path: Path) -> None:
    system, _ = system_with(made(), call("bake", order=7, pin="hunter2"))
    system.add_agent(name="clerk", description="Does as told.", prompt="You are a clerk.")
    async with open_thread(system, tmp_path / "clerk.db", agent="clerk") as thread:
        await thread.invoke("go")
        await thread.wait(timeout=10)
        events = [event async for event in thread.events(follow=False)]
    (started,) = [event.data for event in events if event.type == EventType.TOOL_STARTED]
    assert started["args"] == {"order": 7, "pin": "••••••"}


async def test_it_is_retried_and_its_risk_is_asked_about_like_that_of_any_tool(tmp_path: Path) -> None:
    async def busy(args: dict[str, Any], ctx: ToolContext) -> str:
        if ctx.attempt == 1:
            raise ToolError("the oven is busy", retry=True)
        return f"baked in attempt {ctx.attempt}"

    tool = Tool.from_schema(
        "bake",
        "",
        SCHEMA,
        busy,
        retry=RetryPolicy(base_delay=0.001),
        risk=lambda args: "high" if args["order"] > 5 else "low",
    )
    system, _ = system_with(tool, call("bake", order=7))
    system.use(hitl, tags=["default"]).add_agent(name="clerk", description="Does as told.", prompt="You are a clerk.")
    async with open_thread(system, tmp_path / "clerk.db", agent="clerk") as thread:
        await thread.invoke("go")
        run = await thread.wait(timeout=10)
        assert [(asked.name, asked.risk) for asked in run.meta.pending_tool_calls] == [("bake", "high")]
        await thread.approve()
        assert (await thread.wait(timeout=10)).data == "done"
        assert (await thread.state()).messages[-2].content == "baked in attempt 2"


async def test_a_person_can_edit_its_arguments_within_the_schema(tmp_path: Path) -> None:
    system, _ = system_with(made(risk="high"), call("bake", call_id="7", order=7))
    system.use(hitl, tags=["default"]).add_agent(name="clerk", description="Does as told.", prompt="You are a clerk.")
    async with open_thread(system, tmp_path / "clerk.db", agent="clerk") as thread:
        await thread.invoke("go")
        await thread.wait(timeout=10)
        await thread.decide({"7": Edit(args={"order": 9})})
        await thread.wait(timeout=10)
        assert '"order":9' in (await thread.state()).messages[-2].content
