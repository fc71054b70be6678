"""What one run has in the place of what its agent's blueprint says: models, parameters, tools, options of middleware.

They come with the message that starts the run. The thread checks them before it takes the message, and stores them with
the run, so they are the same after a crash. They only choose among what the agent has: no option adds a tool.

A run hands its tools and its middleware's options down to the children that it starts: what was denied to it is not to
be had from a subagent either.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, TypedDict

from pydantic import Field, JsonValue, TypeAdapter, field_serializer
from pydantic_core import to_json

from agency.define.blueprint import ModelChoice, Models, Name, check_models
from agency.errors import InvalidInput, TooLarge
from agency.models.interface import ModelParams
from agency.validation import valid
from agency.wire import Wire, sayable

NAMES_MOST = 500
OPTIONS_BYTES = 100_000
MODEL_OPTIONS_BYTES = 200_000

ToolNames = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=64)], ...], Field(max_length=NAMES_MOST)]


class ToolFilter(Wire):
    """Which of its agent's tools a run has: those that are allowed, which is all of them if None, without those that
    are denied."""

    allow: Annotated[ToolNames | None, Field(description="Only these tools; without it, all.")] = None
    deny: Annotated[ToolNames, Field(description="None of these tools.")] = ()

    def admits(self, tool: str) -> bool:
        return tool not in self.deny and (self.allow is None or tool in self.allow)

    def check(self, tools: Collection[str]) -> None:
        """Refuse a name that no tool has: a misspelt one would leave the run a tool that it must not have."""
        unknown = [name for name in (*(self.allow or ()), *self.deny) if name not in tools]
        if unknown:
            raise InvalidInput(f"tools: the agent has no tool {unknown[0]!r}; it has {', '.join(sorted(tools))}")

    def narrowed(self, more: ToolFilter | None) -> ToolFilter:
        """What both of them admit."""
        if more is None:
            return self
        allow = more.allow if self.allow is None else self.allow
        if self.allow is not None and more.allow is not None:
            allow = tuple(name for name in self.allow if name in more.allow)
        return ToolFilter(allow=allow, deny=tuple(dict.fromkeys((*self.deny, *more.deny))))


class RunOptions(Wire):
    """What one run has in the place of the blueprint's."""

    model: Annotated[Models | None, Field(description="The model of the run, or a chain of them.")] = None
    params: Annotated[
        ModelParams | None, Field(description="Parameters of the run's model calls; others are the blueprint's.")
    ] = None
    tools: Annotated[ToolFilter | None, Field(description="Which of the agent's tools the run has.")] = None
    options: Annotated[
        dict[Name, JsonValue], Field(description="Options for the run, by the name of the middleware that takes them.")
    ] = {}

    @field_serializer("params")
    def _only_given(self, params: ModelParams | None) -> dict[str, JsonValue] | None:
        """A parameter that was not given stays the blueprint's, also after it was stored."""
        return None if params is None else params.model_dump(mode="json", exclude_unset=True)

    @property
    def run_options(self) -> RunOptions:
        """These alone, of what has more fields."""
        given = {name: getattr(self, name) for name in RunOptions.model_fields if name in self.model_fields_set}
        return RunOptions(**given) if given else NO_OPTIONS

    @property
    def option_fields(self) -> RunOptionFields:
        """The same, as a caller gives them."""
        return {"model": self.model, "params": self.params, "tools": self.tools, "options": self.options}

    def params_over(self, of_blueprint: ModelParams) -> ModelParams:
        """The parameters of the run's model calls."""
        if self.params is None:
            return of_blueprint
        return of_blueprint.model_copy(
            update={name: getattr(self.params, name) for name in self.params.model_fields_set}
        )

    def followed_by(self, later: RunOptions) -> RunOptions:
        """Those of a run that two messages start together: what the later one says, without a tool that the earlier one
        does not admit."""
        return self.handed_down(later, to_copy=True)

    def handed_down(self, more: RunOptions, *, to_copy: bool) -> RunOptions:
        """Those of a child's run: `more` of its own, within what this run has. A copy of the same agent also works with
        the same models."""
        return RunOptions(
            model=more.model if more.model is not None or not to_copy else self.model,
            params=more.params if more.params is not None or not to_copy else self.params,
            tools=more.tools if self.tools is None else self.tools.narrowed(more.tools),
            options={**self.options, **more.options},
        )


NO_OPTIONS = RunOptions()


class RunOptionFields(TypedDict, total=False):
    """`RunOptions`, as callers give them."""

    model: str | Sequence[str | ModelChoice | Mapping[str, Any]] | None
    params: ModelParams | Mapping[str, Any] | None
    tools: ToolFilter | Mapping[str, Sequence[str]] | None
    options: Mapping[str, JsonValue] | None


_OPTIONS = TypeAdapter(RunOptions)


def check_size(options: RunOptions) -> None:
    """Refuse options that are too large to be stored with a run and shown with it."""
    if len(to_json(options.options)) > OPTIONS_BYTES:
        raise TooLarge(
            f"options: a run has at most {OPTIONS_BYTES} bytes of them; larger things are files or on a shelf"
        )
    if (size := len(options.model_dump_json(exclude={"options"}))) > MODEL_OPTIONS_BYTES:
        raise TooLarge(
            f"model, params and tools of a run have {size} bytes together, and {MODEL_OPTIONS_BYTES} are accepted"
        )


def as_options(given: RunOptionFields) -> RunOptions:
    """What a caller gives, checked as far as it can be without knowing the agent."""
    fields = {name: value for name, value in given.items() if value is not None}
    if not fields:
        return NO_OPTIONS
    checked = valid(_OPTIONS, fields, "options of the run")
    if checked.model is not None:
        check_models(checked.model)
    return checked.model_copy(update={"options": sayable(dict(checked.options))})
