"""Tools: Python functions that a model can call.

    @tool(risk="high", idempotent=False, timeout=30)
    async def refund(order_id: str, cents: int, ctx: ToolContext) -> dict:
        "Refund an order."

The JSON schema comes from the type hints and the descriptions from the docstring, once, when the tool is defined: a
function that cannot be a tool fails there. A parameter annotated with `ToolContext` gets the call's context and is
not part of the schema.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_type_hints, overload

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, JsonValue, PydanticUserError, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.fields import FieldInfo

from agency.context import ToolContext
from agency.errors import DefinitionError, InvalidInput
from agency.models import ToolSpec

Risk = Literal["low", "medium", "high"]
InDoubt = Literal["report", "ask", "rerun"]
ToolFunction = Callable[..., Any]  # a tool may return anything that JSON can say


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call that asks to be retried is tried, and the wait between, doubling up to `max_delay` seconds."""

    attempts: int = 3
    base_delay: float = 0.5
    max_delay: float = 30.0

    def delay_ms(self, attempt: int) -> int:
        return int(min(self.base_delay * 2 ** (attempt - 1), self.max_delay) * 1000)


@dataclass(frozen=True)
class Tool:
    """A function with what the runtime needs to know about it. See `tool` for the options."""

    name: str
    function: ToolFunction
    spec: ToolSpec
    arguments: type[BaseModel]
    context_parameter: str | None
    safe: bool = False
    idempotent: bool = True
    in_doubt: InDoubt = "report"
    risk: Risk = "low"
    timeout: float | None = None
    retry: RetryPolicy | None = None
    is_async: bool = field(default=False)

    def bind(self, args: JsonValue) -> dict[str, Any]:
        """The function's keyword arguments from what a model sent; `InvalidInput` says what is wrong with it."""
        if not isinstance(args, Mapping):
            raise InvalidInput(f"the arguments of {self.name} must be a JSON object, not {args!r:.200}")
        try:
            bound = self.arguments.model_validate(args)
        except ValidationError as error:
            raise InvalidInput(f"wrong arguments for {self.name}: {_explain(error)}") from error
        return {name: getattr(bound, name) for name in type(bound).model_fields}


@overload
def tool(function: ToolFunction, /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    safe: bool = False,
    idempotent: bool = True,
    in_doubt: InDoubt = "report",
    risk: Risk = "low",
    timeout: float | None = None,
    retry: RetryPolicy | None = None,
) -> Callable[[ToolFunction], Tool]: ...


def tool(
    function: ToolFunction | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    safe: bool = False,
    idempotent: bool = True,
    in_doubt: InDoubt = "report",
    risk: Risk = "low",
    timeout: float | None = None,
    retry: RetryPolicy | None = None,
) -> Tool | Callable[[ToolFunction], Tool]:
    """Make a tool of a function, sync or async. A sync one runs in a worker thread.

    - `safe`: may run beside other safe calls of its batch. Others run one at a time, in the order of the calls.
    - `idempotent`: may simply run again after a crash. Where it may not, `in_doubt` says what happens to a call that
      had started: `report` to the model that it may have happened, `ask` a person, or `rerun`.
    - `risk`: shown to the people who approve calls.
    - `timeout`: seconds until the call is stopped and fails.
    - `retry`: what `ToolError(…, retry=True)` leads to; without it such a call just fails.
    """
    caller = sys._getframe(1)

    def define(function: ToolFunction) -> Tool:
        if timeout is not None and timeout <= 0:
            raise DefinitionError(f"{_where(function)}: timeout must be positive, not {timeout}")
        called = name or function.__name__
        arguments, context_parameter = _arguments(function, called, caller.f_locals)
        spec = ToolSpec(
            name=called,
            description=description or _summary(function),
            parameters=_parameters(function, arguments),
        )
        return Tool(
            name=called,
            function=function,
            spec=spec,
            arguments=arguments,
            context_parameter=context_parameter,
            safe=safe,
            idempotent=idempotent,
            in_doubt=in_doubt,
            risk=risk,
            timeout=timeout,
            retry=retry,
            is_async=inspect.iscoroutinefunction(function),
        )

    return define if function is None else define(function)


def _where(function: ToolFunction) -> str:
    code = getattr(function, "__code__", None)
    place = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return f"tool {getattr(function, '__name__', function)!r}{place}"


def _summary(function: ToolFunction) -> str:
    return docstring_parser.parse(function.__doc__ or "").description or ""


def _arguments(
    function: ToolFunction, called: str, caller_locals: Mapping[str, Any]
) -> tuple[type[BaseModel], str | None]:
    """A pydantic model of the function's parameters, and the name of the one that takes the context."""
    try:
        hints = get_type_hints(function, localns=dict(caller_locals), include_extras=True)
    except (NameError, TypeError) as error:
        raise DefinitionError(f"{_where(function)}: cannot resolve its type hints: {error}") from error
    described = {p.arg_name: p.description for p in docstring_parser.parse(function.__doc__ or "").params}
    context_parameter: str | None = None
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise DefinitionError(f"{_where(function)}: parameter {parameter} must be an ordinary named one")
        if parameter.name not in hints:
            raise DefinitionError(f"{_where(function)}: parameter {parameter.name!r} has no type hint")
        if hints[parameter.name] is ToolContext:
            context_parameter = parameter.name
        else:
            fields[parameter.name] = _field(parameter, hints[parameter.name], described.get(parameter.name))
    try:
        model = create_model(
            called,
            __config__=ConfigDict(extra="forbid", populate_by_name=True, arbitrary_types_allowed=False),
            **fields,
        )
    except (PydanticUserError, PydanticSchemaGenerationError, TypeError, NameError) as error:
        raise DefinitionError(f"{_where(function)}: no schema can be built: {_first_line(error)}") from error
    return model, context_parameter


def _field(parameter: inspect.Parameter, hint: Any, description: str | None) -> tuple[Any, FieldInfo]:
    default = ... if parameter.default is parameter.empty else parameter.default
    if isinstance(default, FieldInfo):
        return hint, default
    stated = Field(default=default, description=description) if description else Field(default=default)
    return hint, stated


def _parameters(function: ToolFunction, arguments: type[BaseModel]) -> dict[str, JsonValue]:
    try:
        schema = arguments.model_json_schema()
    except PydanticUserError as error:
        raise DefinitionError(f"{_where(function)}: no schema can be built: {_first_line(error)}") from error
    bare = _without_titles(schema)
    assert isinstance(bare, dict)
    bare.pop("description", None)
    return bare


def _without_titles(schema: JsonValue) -> JsonValue:
    """Drop the titles that pydantic derives from names: they cost tokens and say nothing."""
    if isinstance(schema, list):
        return [_without_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_titles(part) for name, part in value.items()}
        if key in ("properties", "$defs") and isinstance(value, dict)
        else _without_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _explain(error: ValidationError) -> str:
    problems = [f"{'.'.join(str(part) for part in e['loc']) or 'arguments'}: {e['msg']}" for e in error.errors()]
    return "; ".join(problems)
