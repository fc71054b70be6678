"""Structured output: the result of a run as a value that fits a JSON schema, instead of prose.

A provider that can hold its model to a schema is told to (`native`). Any other is given one more tool, by which the
model hands its result in (`tool`). Either way we check the value ourselves: nothing that does not fit is a result.
A tool that ends the run with `Finish`, or code that submits a value, speaks for itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError
from pydantic_core import from_json

from agency.errors import InvalidInput
from agency.messages import ToolCall
from agency.models import ToolSpec
from agency.turn.effects import ModelReply, Output
from agency.turn.outcomes import Failure, Settled
from agency.wire import explain

if TYPE_CHECKING:
    from jsonschema import ValidationError as SchemaProblem

Schema = dict[str, JsonValue]
OutputType = type[BaseModel] | Mapping[str, JsonValue]
"""How a result is described: a pydantic model, or a JSON schema."""

TOOL = "submit_result"
FIELD = "result"
"""Where the value is, if it is no object: APIs want one around it."""
SCHEMA_CHARS = 100_000
PROBLEMS = 5
ALONE = "hand in the result alone, once the other calls have their results"
_DESCRIPTION = "Hand in the result of your work. Call this, and no other tool beside it, when you are done."
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


def as_schema(wanted: OutputType) -> Schema:
    """The schema, checked; `InvalidInput` says what is wrong with it."""
    if isinstance(wanted, type):
        return wanted.model_json_schema()
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    schema = dict(wanted)
    try:
        written = _JSON.dump_json(_JSON.validate_python(schema))
        Draft202012Validator.check_schema(schema)
    except ValidationError as error:
        raise InvalidInput(f"the output's schema is no JSON: {explain(error)}") from error
    except SchemaError as error:
        raise InvalidInput(f"the output's schema is no JSON schema: {error.message}") from error
    if len(written) > SCHEMA_CHARS:
        raise InvalidInput(f"the output's schema has {len(written)} bytes; {SCHEMA_CHARS} are accepted")
    if outside := [ref for ref in _references(schema) if not ref.startswith("#")]:
        raise InvalidInput(f"the output's schema refers to {outside[0]!r}: it can only refer to its own parts")
    if dangling := [ref for ref in _references(schema) if not _leads_somewhere(schema, ref)]:
        raise InvalidInput(f"the output's schema refers to {dangling[0]!r}, which is not there")
    return schema


def _references(schema: JsonValue) -> Iterator[str]:
    match schema:
        case dict():
            for key, value in schema.items():
                if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                    yield value
                yield from _references(value)
        case list():
            for value in schema:
                yield from _references(value)


def _leads_somewhere(schema: Schema, ref: str) -> bool:
    """Whether a pointer ('#/$defs/Order') finds its part; anchors are left to the validator."""
    if not ref.startswith("#/"):
        return True
    part: JsonValue = schema
    for step in ref[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(part, dict) or name not in part:
            return False
        part = part[name]
    return True


# What is asked for.


def native(schema: Schema) -> dict[str, JsonValue]:
    """The schema as a `response_format`."""
    return {"type": "json_schema", "json_schema": {"name": FIELD, "schema": _as_object(schema)}}


def tool(schema: Schema, taken: Collection[str]) -> ToolSpec:
    """The tool by which a model hands in its result."""
    return ToolSpec(name=tool_name(taken), description=_DESCRIPTION, parameters=_as_object(schema))


def tool_name(taken: Collection[str]) -> str:
    name = TOOL
    while name in taken:
        name += "_"
    return name


def _is_object(schema: Schema) -> bool:
    return schema.get("type") == "object"


def _as_object(schema: Schema) -> Schema:
    if _is_object(schema):
        return schema
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    whole: Schema = {"type": "object", "properties": {FIELD: inner}, "required": [FIELD], "additionalProperties": False}
    return {**whole, "$defs": schema["$defs"]} if "$defs" in schema else whole


# What comes back.


def judge(
    reply: ModelReply, text: str, schema: Schema, model: type[BaseModel] | None, offered: Collection[str]
) -> tuple[Output | None, dict[str, Settled]]:
    """What a reply comes to as the run's result: nothing if it calls tools. Calls that do not run because the result
    was handed in beside others are refused. `text` is all that was said, `model` what the schema was made from."""
    name = tool_name(offered)
    handed_in = [call for call in reply.tool_calls if call.name == name]
    if handed_in and len(reply.tool_calls) == 1:
        return _from_call(handed_in[0], schema, model), {}
    if reply.tool_calls:
        refusal = Failure(kind="invalid_request", source="policy", message=ALONE)
        return None, {call.id: refusal for call in handed_in}
    try:
        value: JsonValue = from_json(text)
    except ValueError as error:
        problem = "it is empty" if not text.strip() else f"it is no JSON ({error})"
        return Output(code="ERR_JSON_OUTPUT_PARSE", problem=problem), {}
    return _checked(value, schema, model, None), {}


def _from_call(call: ToolCall, schema: Schema, model: type[BaseModel] | None) -> Output:
    if isinstance(call.args, str):
        return Output(code="ERR_JSON_OUTPUT_PARSE", problem="the arguments are no JSON", call=call.id)
    return _checked(call.args, schema, model, call.id)


def _checked(value: JsonValue, schema: Schema, model: type[BaseModel] | None, call: str | None) -> Output:
    if not _is_object(schema) and isinstance(value, dict) and value.keys() == {FIELD}:
        value = value[FIELD]
    problems = list(_problems(value, schema, model))
    if problems:
        return Output(code="ERR_JSON_OUTPUT_SCHEMA", problem="; ".join(problems[:PROBLEMS]), call=call)
    return Output(value=value, call=call)


def _problems(value: JsonValue, schema: Schema, model: type[BaseModel] | None) -> Iterator[str]:
    from jsonschema import Draft202012Validator

    found: Sequence[SchemaProblem] = sorted(Draft202012Validator(schema).iter_errors(value), key=lambda e: e.json_path)
    yield from (f"{problem.json_path}: {problem.message:.300}" for problem in found)
    if model is not None and not found:  # it may ask for more than a schema can say
        try:
            model.model_validate(value)
        except ValidationError as error:
            yield explain(error)


def is_output_type(wanted: Any) -> bool:
    return isinstance(wanted, Mapping) or (isinstance(wanted, type) and issubclass(wanted, BaseModel))
