"""The arguments that a model may send to a tool: a JSON schema, and checked values.

They come from a function's signature (`Arguments`), or from a schema that is there already (`SchemaArguments`).
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, get_args, get_origin, get_type_hints

import docstring_parser
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)
from pydantic import create_model as create_pydantic_model
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.fields import FieldInfo

from agency.define.context import ToolContext
from agency.errors import DefinitionError, InvalidInput
from agency.json_schema import Schema, problems, validator
from agency.validation import valid
from agency.wire import explain

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

AnyFunction = Callable[..., Any]  # whatever people write tools with


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a function takes. The model's fields have names of their own: a parameter may be called `json` or `copy`."""

    model: type[BaseModel]
    names: Mapping[str, str]
    """The parameter for each field of the model."""
    context_parameter: str | None
    """The parameter that gets the call's `ToolContext`."""
    schema: dict[str, JsonValue]
    deps: object = None
    """Of what type `ctx.deps` are to be, as in `ToolContext[Deps]`; None if the function does not say."""

    def bind(self, tool: str, args: JsonValue) -> dict[str, Any]:
        """The function's keyword arguments from what a model sent; `InvalidInput` says what is wrong with it."""
        _check_object(tool, args)
        try:
            bound = self.model.model_validate(args)
        except ValidationError as error:
            raise InvalidInput(f"wrong arguments for {tool}: {explain(error, unknown=_UNKNOWN)}") from error
        return {parameter: getattr(bound, name) for name, parameter in self.names.items()}

    def stated(self, args: JsonValue) -> JsonValue:
        """The arguments as the function will get them, by the names of the schema: of the declared types, and with
        defaults. Those that are wrong are as they were sent."""
        try:
            values = self.model.model_validate(args).model_dump(mode="json", warnings="none")
        except Exception:  # the model wrote them, and a user's validator may raise anything
            return args
        return {_name_in_schema(self.model.model_fields[name]): value for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class SchemaArguments:
    """What a JSON schema says. All of them are one value for the function, as the model has sent it."""

    schema: Schema
    checker: Draft202012Validator
    context_parameter: ClassVar[str] = "ctx"
    deps: ClassVar[object] = None

    @classmethod
    def of(cls, schema: Mapping[str, JsonValue], where: str) -> SchemaArguments:
        """Read a schema. One that cannot be used raises `DefinitionError`, which begins with `where`."""
        try:
            checked = valid(_SCHEMA, dict(schema), "schema")
            whole = {"type": "object", **checked}
            checker = validator(whole, "its schema", mask="the value")  # what a model sends may be a secret
        except InvalidInput as error:
            raise DefinitionError(f"{where}: {error}") from error
        if whole["type"] != "object":
            raise DefinitionError(f'{where}: its schema must be of "type": "object", not {whole["type"]!r:.100}')
        return cls(whole, checker)

    def bind(self, tool: str, args: JsonValue) -> dict[str, Any]:
        """The function's keyword arguments from what a model sent; `InvalidInput` says what is wrong with it."""
        _check_object(tool, args)
        if wrong := list(problems(self.checker, args)):
            raise InvalidInput(f"wrong arguments for {tool}: {'; '.join(wrong)}")
        return {"args": args}

    def stated(self, args: JsonValue) -> JsonValue:
        """The arguments as the function will get them."""
        return args


def _check_object(tool: str, args: JsonValue) -> None:
    if not isinstance(args, Mapping):
        raise InvalidInput(f"the arguments of {tool} must be a JSON object, not {args!r:.200}")


_UNKNOWN = "there is no argument {name}"
_SCHEMA: TypeAdapter[Schema] = TypeAdapter(dict[str, JsonValue])


def arguments_of(function: AnyFunction, where: str, caller_locals: Mapping[str, Any]) -> Arguments:
    """Read a signature. What cannot be read raises `DefinitionError`, which begins with `where`."""
    hints = _hints(function, where, caller_locals)
    described = {p.arg_name: p.description for p in docstring_parser.parse(function.__doc__ or "").params}
    contexts: list[str] = []
    deps: object = None
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise DefinitionError(f"{where}: parameter {parameter} must be an ordinary named one")
        if parameter.name not in hints:
            raise DefinitionError(f"{where}: parameter {parameter.name!r} has no type hint")
        if (hint := hints[parameter.name]) is ToolContext or get_origin(hint) is ToolContext:
            contexts.append(parameter.name)
            deps = next((each for each in get_args(hint) if each is not type(None)), None)
            continue
        name = f"p{len(names)}"
        names[name] = parameter.name
        fields[name] = (hints[parameter.name], _field(parameter, hints[parameter.name], described))
    if len(contexts) > 1:
        raise DefinitionError(f"{where}: there can be one ToolContext, not {contexts}")
    try:
        model = create_pydantic_model("arguments", __config__=ConfigDict(extra="forbid"), **fields)
        schema = _without_titles(model.model_json_schema())
    except (PydanticUserError, PydanticSchemaGenerationError, TypeError, NameError) as error:
        raise DefinitionError(f"{where}: no schema can be built: {str(error).splitlines()[0]}") from error
    assert isinstance(schema, dict)
    return Arguments(model, names, contexts[0] if contexts else None, schema, deps)


def _name_in_schema(field: FieldInfo) -> str:
    named = field.validation_alias
    return str(named.choices[0] if isinstance(named, AliasChoices) else named)


def _hints(function: AnyFunction, where: str, caller_locals: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, localns=dict(caller_locals), include_extras=True)
    except Exception as error:  # hints are evaluated: anything may come out
        raise DefinitionError(f"{where}: cannot resolve its type hints: {error}") from error


def _field(parameter: inspect.Parameter, hint: Any, described: Mapping[str, str | None]) -> FieldInfo:
    """The parameter as a field: its default, its description, and the names under which a model may send it."""
    given = parameter.default
    field = copy.copy(given) if isinstance(given, FieldInfo) else _plain_field(given)
    stated = [*(part for part in get_args(hint) if isinstance(part, FieldInfo)), field]
    alias = next((part.alias for part in reversed(stated) if part.alias), None)
    field.validation_alias = AliasChoices(alias, parameter.name) if alias else parameter.name
    field._attributes_set["validation_alias"] = field.validation_alias
    if described.get(parameter.name) and not any(part.description for part in stated):
        field.description = field._attributes_set["description"] = described[parameter.name]
    return field


def _plain_field(default: Any) -> FieldInfo:
    field = Field() if default is inspect.Parameter.empty else Field(default=default)
    assert isinstance(field, FieldInfo)
    return field


_VALUES = ("default", "enum", "const", "examples")


def _without_titles(schema: JsonValue) -> JsonValue:
    """Drop the titles that pydantic derives from names: they cost tokens and say nothing."""
    if isinstance(schema, list):
        return [_without_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    bare: dict[str, JsonValue] = {}
    for key, value in schema.items():
        if key in _VALUES:
            bare[key] = value
        elif key in ("properties", "$defs") and isinstance(value, dict):
            bare[key] = {name: _without_titles(part) for name, part in value.items()}
        elif not (key == "title" and isinstance(value, str)):
            bare[key] = _without_titles(value)
    return bare
