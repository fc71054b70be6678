"""What an agent is: its prompt, its models and, by its tags, its tools and middleware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, get_args

from pydantic import (
    BeforeValidator,
    Field,
    JsonValue,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from agency.models.interface import Capability, ModelParams
from agency.names import check_name
from agency.turn.modes import ModeName
from agency.turn.state import Limits
from agency.wire import Wire

Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]+$", max_length=64)]
ModelName = Annotated[str, StringConstraints(pattern=r"^([a-z][a-z0-9_-]*:\S(.*\S)?|[^\s:]+)$")]
"""`provider:model`; without a provider, the model is one of the default model's provider."""

Isolation = Literal["shared", "dedicated"]


class ModelChoice(Wire):
    """A model of a chain, used only if it has these capabilities."""

    model: ModelName
    requires: tuple[Capability, ...] = ()


def _plainly(models: object, check: ValidatorFunctionWrapHandler) -> str | tuple[str | ModelChoice, ...]:
    """What is wrong with one of several forms is hard to read; which forms there are is not."""
    try:
        checked: str | tuple[str | ModelChoice, ...] = check(models)
    except ValidationError:
        raise ValueError(
            "a model reads 'provider:model', or 'model' if the default model's provider has it; a chain is a list of 1 "
            "to 20 of them, or of {model, requires}, where "
            f"`requires` are some of {', '.join(get_args(Capability))}"
        ) from None
    return checked


Models = Annotated[
    ModelName | Annotated[tuple[ModelName | ModelChoice, ...], Field(min_length=1, max_length=20)],
    WrapValidator(_plainly),
]
"""A model, or a chain of them: if one fails in a way that may pass, the next is asked."""


def chain_of(models: str | Sequence[str | ModelChoice]) -> tuple[ModelChoice, ...]:
    """The chain, first choice first; a single model is a chain of one."""
    listed = (models,) if isinstance(models, str) else models
    return tuple(ModelChoice(model=each) if isinstance(each, str) else each for each in listed)


def check_models(models: str | Sequence[str | ModelChoice]) -> None:
    """Refuse a chain of models with a name that people cannot read. Stored ones may be older than that rule."""
    for choice in chain_of(models):
        check_name(choice.model, "a model's name")


def _plain(config: object) -> object:
    """A configuration with the blueprints in it as JSON has them: agents may be defined inside of agents."""
    match config:
        case Blueprint():
            return config.model_dump(mode="json", exclude_unset=True)
        case dict():
            return {name: _plain(value) for name, value in config.items()}
        case list() | tuple():
            return [_plain(value) for value in config]
        case _:
            return config


class Blueprint(Wire):
    """An agent: its prompt, and its tools and middleware: those that share a tag with it, and those that it names. A
    thread keeps the blueprint it began with.

    Only an `active` blueprint starts threads; a `draft` is not ready yet and a `disabled` one no longer wanted. On a
    cluster, a thread of a `dedicated` one has a process to itself. Models that lack what it `requires` are passed over.
    With an `output_schema`, the result of a run is a value that fits it.

    One that is `unattended` runs tools of medium and high risk though it has no approvals. None is a blueprint that was
    stored before this was asked: its threads run, with a warning.
    """

    name: Name
    description: str = ""
    prompt: str = Field(min_length=1)
    tags: tuple[Name, ...] = ("default",)
    tools: tuple[Name, ...] = ()
    middleware: tuple[Name, ...] = ()
    model: Models | None = None
    requires: tuple[Capability, ...] = ()
    params: ModelParams = ModelParams()
    output_schema: dict[str, JsonValue] | None = None
    config: Annotated[dict[str, JsonValue], BeforeValidator(_plain)] = {}
    status: Literal["active", "draft", "disabled"] = "active"
    limits: Limits = Limits()
    mode: ModeName = "tools"
    isolation: Isolation = "shared"
    unattended: bool | None = None
