"""Tools: Python functions that a model can call.

    @tool(risk="high", idempotent=False, timeout=30)
    async def refund(order_id: str, cents: int, ctx: ToolContext) -> dict:
        "Refund an order."

The JSON schema comes from the type hints and the descriptions from the docstring, once, when the tool is defined: a
function that cannot be a tool fails there. A parameter annotated with `ToolContext` gets the call's context and is
not part of the schema. What has a schema already, such as a tool of another server, is made a tool by
`Tool.from_schema`.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args, overload

import docstring_parser
from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict, Unpack

from agency.backoff import Backoff
from agency.define.arguments import AnyFunction, Arguments, SchemaArguments, arguments_of
from agency.define.context import ToolContext
from agency.errors import DefinitionError
from agency.models.interface import ToolSpec
from agency.redaction import secret_names
from agency.secrets import Secret
from agency.turn.outcomes import Risk
from agency.wire import explain, sayable_text

RiskRule = Callable[[Mapping[str, Any]], Risk]
"""How risky a call with these arguments is."""
InDoubt = Literal["report", "ask", "rerun"]
SchemaCall = Callable[[dict[str, Any], ToolContext[Any]], object | Awaitable[object]]
"""What a tool with a schema runs. It gets the arguments as the model has sent them, and the call's context."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what every provider accepts


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call that asks to be retried is tried, and the wait between, doubling up to `max_delay` seconds."""

    attempts: int = 3
    base_delay: float = 0.5
    max_delay: float = 30.0

    def delay_ms(self, attempt: int) -> int:
        return Backoff(self.base_delay, self.max_delay).delay_ms(attempt)


@with_config(ConfigDict(extra="forbid"))
class RayOptions(TypedDict, total=False):
    """What a tool that runs as a Ray task asks for, in Ray's words."""

    num_cpus: Annotated[float, Field(ge=0)]
    num_gpus: Annotated[float, Field(ge=0)]
    memory: Annotated[int, Field(gt=0)]
    resources: dict[str, Annotated[float, Field(gt=0)]]
    accelerator_type: str
    label_selector: dict[str, str]
    runtime_env: dict[str, JsonValue]


@with_config(ConfigDict(extra="forbid", strict=True))
class CallOptions(TypedDict, total=False):
    """How calls of a tool are treated. See `tool`."""

    safe: bool
    idempotent: bool
    in_doubt: InDoubt
    risk: Risk | RiskRule
    timeout: Annotated[float, Field(gt=0)] | None
    retry: RetryPolicy | None
    ray: RayOptions | None
    secrets: Mapping[str, Secret]


@with_config(ConfigDict(extra="forbid", strict=True))
class ToolOptions(CallOptions, total=False):
    """See `tool`."""

    name: str
    description: str


@dataclass(frozen=True)
class Tool:
    """A function with what the runtime needs to know about it. See `tool` for the options."""

    name: str
    function: AnyFunction
    spec: ToolSpec
    arguments: Arguments | SchemaArguments
    is_async: bool
    safe: bool = False
    idempotent: bool = True
    in_doubt: InDoubt = "report"
    risk: Risk | RiskRule = "low"
    timeout: float | None = None
    retry: RetryPolicy | None = None
    ray: RayOptions | None = None
    hidden: tuple[str, ...] = ()
    """The arguments that people are not shown."""
    secrets: Mapping[str, Secret] = field(default_factory=dict)

    @classmethod
    def from_schema(
        cls,
        name: str,
        description: str,
        json_schema: Mapping[str, JsonValue],
        call: SchemaCall,
        **options: Unpack[CallOptions],
    ) -> Tool:
        """Make a tool of a JSON schema, for what has no Python signature: a tool of another server, or one that is
        known only at run time.

        `json_schema` describes an object, whose properties are the arguments. They are checked against it before
        `call(args, ctx)` runs, sync or async; properties that are `writeOnly`, or have the format `password`, are not
        shown to people. The `options` are those of `tool`.
        """
        where = f"tool {name!r}"
        if not _takes_two(call):
            raise DefinitionError(f"{where}: `call` is a function of the arguments and the context, not {call!r:.100}")
        if not isinstance(json_schema, Mapping):
            raise DefinitionError(f"{where}: its schema is a dict that describes an object, not {json_schema!r:.100}")

        def function(args: dict[str, Any], ctx: ToolContext) -> object:
            return call(args, ctx)

        plain = call if inspect.isroutine(call) or isinstance(call, functools.partial) else type(call).__call__
        is_async = inspect.iscoroutinefunction(plain)
        arguments = SchemaArguments.of(json_schema, where)
        return _made(where, name, sayable_text(description), function, arguments, is_async, {**options})

    def risk_of(self, args: JsonValue) -> Risk:
        """How risky a call is; a rule that fails, or says what is no risk, does not make it less so."""
        if not callable(self.risk):
            return self.risk
        try:
            stated = self.stated(args)
            risk = self.risk(stated if isinstance(stated, dict) else {})
        except Exception:  # the arguments are the model's
            return "high"
        return risk if risk in get_args(Risk) else "high"

    def stated(self, args: JsonValue) -> JsonValue:
        """The arguments as the function will get them: aliases and defaults resolved."""
        return self.arguments.stated(args)

    def bind(self, args: JsonValue) -> dict[str, Any]:
        """The function's keyword arguments from what a model sent; `InvalidInput` says what is wrong with it."""
        return self.arguments.bind(self.name, args)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, for tests and for other Python code."""
        return self.function(*args, **kwargs)


def _takes_two(call: object) -> bool:
    """Whether something can be called with the arguments and the context. What hides its parameters may."""
    if not callable(call):
        return False
    try:
        inspect.signature(call).bind({}, None)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


@overload
def tool(function: AnyFunction, /) -> Tool: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[AnyFunction], Tool]: ...


def tool(
    function: AnyFunction | None = None, /, **options: Unpack[ToolOptions]
) -> Tool | Callable[[AnyFunction], Tool]:
    """Make a tool of a function, sync or async. A sync one runs in a worker thread.

    - `name`, `description`: instead of the function's name and docstring.
    - `safe`: may run beside other safe calls of its batch. Others run one at a time, in the order of the calls.
    - `idempotent`: may simply run again after a crash, the default. Where it may not, `in_doubt` says what happens to a
      call that had started: `report` to the model that it may have happened, `ask` a person, or `rerun`.
    - `risk`: `low`, `medium` or `high`, or a function of the arguments that says so. With the middleware `hitl`, people
      are asked before calls that are not low; it is shown to them. Arguments that are pydantic's `SecretStr` are not.
    - `timeout`: seconds until the call is stopped and fails.
    - `retry`: what `ToolError(…, retry=True)` leads to; without it such a call just fails.
    - `ray`: on a cluster, run it as a Ray task with these resources, as in `{"num_cpus": 1, "num_gpus": 1}`. There
      it can write to `ctx.store` but not read it. Without a cluster it runs like any other.
    - `secrets`: what it needs to know and the model must not, as in `{"key": secret("env:SHOP_KEY")}`. The tool gets
      the value by `ctx.secret("key")`.
    """
    caller = sys._getframe(1).f_locals
    if function is not None:
        return as_tool(function, caller, options)
    return lambda function: as_tool(function, caller, options)


def as_tool(function: AnyFunction, caller_locals: Mapping[str, Any], options: ToolOptions) -> Tool:
    """What `tool` does, for a function whose hints may name things that are local to where it was defined."""
    if not inspect.isroutine(function):
        raise DefinitionError(f"a tool is made of a function, not of {function!r}")
    code = getattr(function, "__code__", None)
    where = f"tool {function.__name__!r}" + (f" ({code.co_filename}:{code.co_firstlineno})" if code else "")
    given: dict[str, Any] = {**options}
    called = given.pop("name", function.__name__)
    arguments = arguments_of(function, where, caller_locals)
    summary = given.pop("description", None) or docstring_parser.parse(function.__doc__ or "").description or ""
    return _made(where, called, summary, function, arguments, inspect.iscoroutinefunction(function), given)


def _made(
    where: str,
    name: str,
    description: str,
    function: AnyFunction,
    arguments: Arguments | SchemaArguments,
    is_async: bool,
    options: dict[str, Any],
) -> Tool:
    """The tool, its name and its options checked."""
    try:
        given = {**_OPTIONS.validate_python({"name": name, "description": description, **options})}
    except ValidationError as error:
        raise DefinitionError(f"{where}: {explain(error)}") from error
    if not _NAME.fullmatch(name):
        raise DefinitionError(f"{where}: a tool's name has 1 to 64 letters, digits, '-' and '_', not {name!r}")
    if "in_doubt" in given and given.get("idempotent", True):
        raise DefinitionError(f"{where}: in_doubt is for tools with idempotent=False")
    treated: dict[str, Any] = {option: given[option] for option in given if option not in ("name", "description")}
    return Tool(
        name=name,
        function=function,
        spec=ToolSpec(name=name, description=description.strip(), parameters=arguments.schema),
        arguments=arguments,
        is_async=is_async,
        hidden=secret_names(arguments.schema),
        **treated,
    )


_OPTIONS = TypeAdapter(ToolOptions)
