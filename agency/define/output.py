"""Structured output: the result of a run as a value that fits a JSON schema, instead of prose.

A provider that can hold its model to a schema is told to (`native`). Any other is given one more tool, by which the
model hands its result in (`tool`). Either way we check the value ourselves: nothing that does not fit is a result.
A tool that ends the run with `Finish`, or code that submits a value, speaks for itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from agency.errors import InvalidInput
from agency.json_schema import PROBLEMS, Schema, problems, validator
from agency.messages import ToolCall
from agency.models.interface import ToolSpec
from agency.turn.effects import ModelReply, Output
from agency.turn.outcomes import Failure, Settled
from agency.wire import explain, read_json

if TYPE_CHECKING:
    pass

OutputType = type[BaseModel] | Mapping[str, JsonValue]
"""How a result is described: a pydantic model, or a JSON schema."""

TOOL = "submit_result"
FIELD = "result"
"""Where the value is, if it is no object: APIs want one around it."""
SCHEMA_CHARS = 100_000
ALONE = "hand in the result alone, once the other calls have their results"
_DESCRIPTION = "Hand in the result of your work. Call this, and no other tool beside it, when you are done."
SHARED = ("$defs", "definitions")
_TO_SHARED = tuple(f"#/{name}/" for name in SHARED)
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*)\n```", re.DOTALL)
_SCHEMA: TypeAdapter[Schema] = TypeAdapter(dict[str, JsonValue])


def as_schema(wanted: OutputType) -> Schema:
    """The schema, checked; `InvalidInput` says what is wrong with it."""
    if isinstance(wanted, type):
        return wanted.model_json_schema()
    try:
        schema = _SCHEMA.validate_python(dict(wanted))
        written = _SCHEMA.dump_json(schema)
    except (ValidationError, ValueError, RecursionError) as error:
        why = explain(error) if isinstance(error, ValidationError) else str(error)
        raise InvalidInput(f"the output's schema is no JSON: {why}") from error
    if len(written) > SCHEMA_CHARS:
        raise InvalidInput(f"the output's schema has {len(written)} bytes; {SCHEMA_CHARS} are accepted")
    validator(schema)
    return schema


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
    """The schema, or one of an object that holds the value. What others refer to stays where it is."""
    if _is_object(schema):
        return schema
    inner = _moved({key: value for key, value in schema.items() if key not in SHARED})
    whole: Schema = {"type": "object", "properties": {FIELD: inner}, "required": [FIELD], "additionalProperties": False}
    return {**whole, **{key: _moved(schema[key]) for key in SHARED if key in schema}}


def _moved(part: JsonValue) -> JsonValue:
    """A part of a schema whose root is now inside an object: references to the root follow it."""
    match part:
        case dict():
            return {key: _led(value) if key == "$ref" else _moved(value) for key, value in part.items()}
        case list():
            return [_moved(value) for value in part]
        case _:
            return part


def _led(ref: JsonValue) -> JsonValue:
    if isinstance(ref, str) and (ref == "#" or ref.startswith("#/")) and not ref.startswith(_TO_SHARED):
        return f"#/properties/{FIELD}{ref[1:]}"
    return ref


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
        value = read_json(_unfenced(text))
    except ValueError as error:
        problem = f"it is no JSON ({error})" if text.strip() else "it is empty"
        return Output(code="ERR_JSON_OUTPUT_PARSE", problem=problem), {}
    return _checked(value, schema, model, None), {}


def _unfenced(text: str) -> str:
    """The text within a fence of Markdown, if that is all there is: many models put one around their JSON."""
    found = _FENCE.fullmatch(text.strip())
    return text if found is None else found.group(1)


def _from_call(call: ToolCall, schema: Schema, model: type[BaseModel] | None) -> Output:
    if isinstance(call.args, str):
        return Output(code="ERR_JSON_OUTPUT_PARSE", problem="the arguments are no JSON", call=call.id)
    return _checked(call.args, schema, model, call.id)


def _checked(value: JsonValue, schema: Schema, model: type[BaseModel] | None, call: str | None) -> Output:
    if not _is_object(schema) and isinstance(value, dict) and value.keys() == {FIELD}:
        value = value[FIELD]
    if found := list(_problems(value, schema, model)):
        return Output(code="ERR_JSON_OUTPUT_SCHEMA", problem="; ".join(found[:PROBLEMS]), call=call)
    return Output(value=value, call=call)


def _problems(value: JsonValue, schema: Schema, model: type[BaseModel] | None) -> Iterator[str]:
    found = list(problems(validator(schema), value))
    yield from found
    if model is not None and not found:  # it may ask for more than a schema can say
        try:
            model.model_validate(value)
        except ValidationError as error:
            yield explain(error)


def is_output_type(wanted: Any) -> bool:
    return isinstance(wanted, Mapping) or (isinstance(wanted, type) and issubclass(wanted, BaseModel))
