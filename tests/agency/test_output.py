"""Results that must fit a schema."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest
from pydantic import BaseModel, JsonValue, field_validator

from agency import AgentSystem, LocalRuntime
from agency.define.output import as_schema
from agency.define.tools import tool
from agency.errors import DefinitionError, InvalidInput
from agency.events import EventType
from agency.messages import ToolCall
from agency.models.interface import Capability, ModelRequest
from agency.testing import Line, ScriptedModel, call
from agency.turn.effects import ModelReply

PATIENCE = 20.0
SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["city", "people"],
    "additionalProperties": False,
}
RIGHT: dict[str, JsonValue] = {"city": "Bern", "people": 7}
NATIVE: tuple[Capability, ...] = ("streaming", "tools", "structured_output")


class Place(BaseModel):
    city: str
    people: int

    @field_validator("people")
    @classmethod
    def _some(cls, people: int) -> int:
        if people < 0:
            raise ValueError("nobody lives there")
        return people


@tool
def look() -> str:
    """Look."""
    return "seen"


def native(*script: Line) -> ScriptedModel:
    return ScriptedModel(script, capabilities=NATIVE)


def plain(*script: Line) -> ScriptedModel:
    return ScriptedModel(script)


def submit(args: JsonValue, name: str = "submit_result") -> ToolCall:
    return ToolCall(id="r", name=name, args=args)


class Told:
    def __init__(self, model: ScriptedModel, tmp_path: Path, **agent: object) -> None:
        self.model = model
        self.system = AgentSystem("a:x", providers={"a": model}).add_tool(look)
        self.system.add_agent(name="clerk", description="…", prompt="…", **agent)  # type: ignore[call-overload]
        self.folder = tmp_path

    async def run(self, output_schema: object = None):  # type: ignore[no-untyped-def]
        async with LocalRuntime(self.system, self.folder) as runtime:
            thread = await runtime.create_thread("clerk")
            await thread.invoke("go", output_schema=output_schema)  # type: ignore[arg-type]
            run = await thread.wait(PATIENCE)
            self.messages = (await thread.state()).messages
            self.events = [event async for event in thread.events(follow=False)]
            return run


async def test_a_model_that_can_be_held_to_a_schema_is(tmp_path: Path) -> None:
    told = Told(native(call("look"), '{"city": "Bern", "people": 7}'), tmp_path, output_schema=SCHEMA)
    run = await told.run()

    assert (run.status, run.data) == ("completed", RIGHT)
    wanted: dict[str, JsonValue] = {"type": "json_schema", "json_schema": {"name": "result", "schema": SCHEMA}}
    assert [request.params.response_format for request in told.model.requests] == [wanted] * 2
    assert [t.name for t in told.model.requests[0].tools] == ["look"]


async def test_another_hands_its_result_in_by_a_tool(tmp_path: Path) -> None:
    told = Told(plain(call("look"), submit(RIGHT)), tmp_path, output_schema=SCHEMA)
    run = await told.run()

    assert (run.status, run.data) == ("completed", RIGHT)
    request = told.model.requests[0]
    assert [t.name for t in request.tools] == ["look", "submit_result"]
    assert request.tools[1].parameters == SCHEMA
    assert request.params.response_format is None
    assert [m.role for m in told.messages] == ["user", "assistant", "tool", "assistant", "tool"]


@pytest.mark.parametrize("fence", ["```json\n{}\n```", "\n```\n{}\n```\n"])
async def test_a_fence_around_the_result_is_no_part_of_it(fence: str, tmp_path: Path) -> None:
    said = fence.replace("{}", '{"city": "Bern", "people": 7}')
    run = await Told(native(said), tmp_path, output_schema=SCHEMA).run()
    assert (run.data, run.meta.turns) == (RIGHT, 1)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ("It is Bern.", "ERR_JSON_OUTPUT_PARSE"),
        ("", "ERR_JSON_OUTPUT_PARSE"),
        ('{"city": "Bern"}', "ERR_JSON_OUTPUT_SCHEMA"),
        ('{"city": "Bern", "people": "many"}', "ERR_JSON_OUTPUT_SCHEMA"),
        ("```json\n{}\n```", "ERR_JSON_OUTPUT_SCHEMA"),
        ('Here it is:\n```json\n{"city": "Bern", "people": 7}\n```', "ERR_JSON_OUTPUT_PARSE"),
        ('{"city": "Bern", "people": NaN}', "ERR_JSON_OUTPUT_PARSE"),
        ('{"city": "Bern", "people": 1e999}', "ERR_JSON_OUTPUT_PARSE"),
    ],
)
async def test_a_result_that_does_not_fit_is_repaired_twice_and_then_an_error(
    wrong: str, code: str, tmp_path: Path
) -> None:
    fixed = Told(native(wrong, wrong, '{"city": "Bern", "people": 7}'), tmp_path / "fixed", output_schema=SCHEMA)
    assert (await fixed.run()).data == RIGHT
    hopeless = Told(native(wrong, wrong, wrong), tmp_path / "hopeless", output_schema=SCHEMA)
    run = await hopeless.run()

    assert (run.status, run.data, run.errors[0].code, run.meta.turns) == ("error", None, code, 3)
    assert [e.data["code"] for e in hopeless.events if e.type is EventType.AGENT_ERROR] == [code]


async def test_prose_from_a_model_that_should_hand_in_by_a_tool_is_sent_back(tmp_path: Path) -> None:
    told = Told(plain("It is Bern.", submit({"city": 1}), submit(RIGHT)), tmp_path, output_schema=SCHEMA)
    run = await told.run()

    assert run.data == RIGHT
    assert 'is not of type "string"' in told.messages[-3].content


async def test_arguments_that_are_no_json_are_sent_back(tmp_path: Path) -> None:
    broken = ModelReply(tool_calls=(call("submit_result").model_copy(update={"args": '{"city": '}),), stop="tool_use")
    run = await Told(plain(broken, submit(RIGHT)), tmp_path, output_schema=SCHEMA).run()

    assert run.data == RIGHT


async def test_a_result_handed_in_beside_other_calls_is_refused_and_the_others_run(tmp_path: Path) -> None:
    both = (call("look", call_id="l"), submit(RIGHT))
    told = Told(plain(both, submit(RIGHT)), tmp_path, output_schema=SCHEMA)
    run = await told.run()

    looked, refused, accepted = [m.content for m in told.messages if m.role == "tool"]
    assert (looked, "alone" in refused, accepted, run.data) == ("seen", True, "Accepted.", RIGHT)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#/definitions/N", "definitions": {"N": {"type": "integer"}}}, 7),
        ({"type": "array", "items": {"$ref": "#"}}, [[], [[]]]),
        ({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/anyOf/0"}}]}, [1]),
        ({"$ref": "#/$defs/a%20b", "$defs": {"a b": {"type": "integer"}}}, 7),
        ({"$ref": "#"}, 1),
        ({}, {"whatever": [1]}),
    ],
)
async def test_whatever_a_schema_refers_to_is_found_also_inside_an_object(
    schema: dict[str, JsonValue], value: JsonValue, tmp_path: Path
) -> None:
    told = Told(native(json.dumps({"result": value})), tmp_path, output_schema=schema)

    assert (await told.run()).data == value
    asked = told.model.requests[0].params.response_format
    assert asked is not None
    wrapped = as_schema(asked["json_schema"]["schema"])  # type: ignore[index,call-overload,arg-type]
    jsonschema_rs.validate(wrapped, {"result": value})


@pytest.mark.timeout(30)
async def test_a_pattern_that_would_take_for_ever_takes_no_time(tmp_path: Path) -> None:
    schema: dict[str, JsonValue] = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    run = await Told(native(*[json.dumps({"a": "a" * 40 + "!"})] * 3), tmp_path, output_schema=schema).run()

    assert run.errors[0].code == "ERR_JSON_OUTPUT_SCHEMA"


class Touchy(BaseModel):
    city: str

    @field_validator("city")
    @classmethod
    def _breaks(cls, city: str) -> str:
        raise RuntimeError("no idea")


async def test_a_pydantic_model_that_breaks_loses_nothing_that_was_paid_for(tmp_path: Path) -> None:
    run = await Told(native(*['{"city": "Bern"}'] * 3), tmp_path, output_schema=Touchy).run()

    assert (run.errors[0].code, "no idea" in run.errors[0].message) == ("ERR_JSON_OUTPUT_SCHEMA", True)
    assert run.meta.tokens_used.total == 45


@pytest.mark.parametrize(
    "schema", [{"type": "array", "items": {"$ref": "#/$defs/N"}, "$defs": {"N": {"type": "integer"}}}]
)
@pytest.mark.parametrize("reply", ['{"result": [1, 2]}', "[1, 2]"])
async def test_a_result_that_is_no_object_is_asked_for_inside_one(
    schema: dict[str, JsonValue], reply: str, tmp_path: Path
) -> None:
    told = Told(native(reply), tmp_path, output_schema=schema)
    run = await told.run()

    assert run.data == [1, 2]
    asked = told.model.requests[0].params.response_format
    assert asked is not None
    wrapped = asked["json_schema"]["schema"]  # type: ignore[index,call-overload]
    assert (wrapped["type"], wrapped["properties"]["result"]["type"]) == ("object", "array")  # type: ignore[index,call-overload]
    assert "N" in wrapped["$defs"]  # type: ignore[index,call-overload,operator]


async def test_a_pydantic_model_asks_for_all_that_it_asks_for(tmp_path: Path) -> None:
    told = Told(native('{"city": "X", "people": -1}', '{"city": "Bern", "people": 7}'), tmp_path, output_schema=Place)
    run = await told.run()

    assert run.data == RIGHT
    assert "nobody lives there" in told.messages[2].content


async def test_a_message_can_ask_for_a_schema_of_its_own_for_its_run_only(tmp_path: Path) -> None:
    told = Told(native('{"city": "Bern", "people": 7}', "prose"), tmp_path)
    async with LocalRuntime(told.system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        await thread.invoke("go", output_schema=Place)
        assert (await thread.wait(PATIENCE)).data == RIGHT
        await thread.invoke("and now in words")
        assert (await thread.wait(PATIENCE)).data == "prose"


async def test_a_run_keeps_its_schema_when_its_thread_is_opened_again(tmp_path: Path) -> None:
    limit = {"tokens": 10}
    told = Told(native(call("look"), "prose", '{"city": "Bern", "people": 7}'), tmp_path, limits=limit)
    async with LocalRuntime(told.system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk", thread_id="t")
        await thread.invoke("go", output_schema=SCHEMA)
        assert (await thread.wait(PATIENCE)).meta.pause_reason == "exhausted"
    async with LocalRuntime(told.system, tmp_path) as runtime:
        thread = await runtime.thread("t")
        await thread.lift_limits(tokens=1_000)
        assert (await thread.wait(PATIENCE)).data == RIGHT


async def test_the_result_can_be_handed_in_in_the_last_turn_as_well(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Line:
        return submit(RIGHT) if request.params.tool_choice == "required" else call("look")

    told = Told(ScriptedModel(script), tmp_path, output_schema=SCHEMA, limits={"turns": 2})
    run = await told.run()

    assert (run.data, run.meta.turns) == (RIGHT, 3)
    assert [t.name for t in told.model.requests[-1].tools] == ["submit_result"]


async def test_a_tool_of_that_name_gives_way_to_none(tmp_path: Path) -> None:
    @tool
    def submit_result() -> str:
        """Something else."""
        return "else"

    told = Told(plain(call("submit_result"), submit(RIGHT, "submit_result_")), tmp_path, output_schema=SCHEMA)
    told.system.add_tool(submit_result)

    assert (await told.run()).data == RIGHT
    assert next(m.content for m in told.messages if m.role == "tool") == "else"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "nonsense"}, "cannot be used"),
        ({"$ref": "https://example.org/x.json"}, "its own parts"),
        ({"$ref": "#/$defs/Missing"}, "does not exist"),
        ({"properties": {"a": {"$ref": "#nope"}}}, "does not exist"),
        ({"pattern": "("}, "regex"),
        ({"enum": ["x" * 200_000]}, "are accepted"),
        ({"const": {1, 2}}, "no JSON"),
    ],
)
async def test_a_schema_that_cannot_be_used_is_refused_and_changes_nothing(
    schema: dict[str, JsonValue], why: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=why):
        as_schema(schema)
    with pytest.raises(DefinitionError, match="clerk"):
        Told(plain(), tmp_path, output_schema=schema)
    told = Told(plain("hello"), tmp_path)
    async with LocalRuntime(told.system, tmp_path) as runtime:
        thread = await runtime.create_thread("clerk")
        with pytest.raises(InvalidInput):
            await thread.invoke("go", output_schema=schema)
        assert thread.run_state().status == "registered"
