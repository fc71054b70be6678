"""The seam to model providers: what a model is asked, what it answers, and how its name finds it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal, Protocol, runtime_checkable

from pydantic import Field, JsonValue, model_validator

from agency.messages import Message, Usage
from agency.turn.effects import ModelReply
from agency.wire import Wire

Capability = Literal["streaming", "tools", "images", "structured_output", "reasoning", "prompt_caching"]
"""What a model can do. `structured_output`: it can be held to a JSON schema."""


class ToolSpec(Wire):
    """A tool as the model sees it."""

    name: str
    description: str
    parameters: dict[str, JsonValue]


class OneTool(Wire):
    """The model must call this tool."""

    name: str


Reasoning = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How hard a model thinks before it answers. Each takes some of these; where an API has fewer, the nearest is meant."""


class ModelParams(Wire):
    """None leaves a parameter to the provider's default."""

    tool_choice: Literal["auto", "none", "required"] | OneTool = "auto"
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    """Left out where the API has none: Anthropic's."""
    max_tokens: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    stop: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(max_length=16)] = ()
    reasoning: Reasoning | None = None
    response_format: dict[str, JsonValue] | None = None
    """As OpenAI has it: `{"type": "json_schema", "json_schema": {"name": …, "schema": …}}` holds any model to a schema
    as far as it can be held. The result is to be checked all the same."""


class PromptPart(Wire):
    """A part of the system prompt, with the middleware that added it; None is the agent's own."""

    by: str | None = None
    text: str


class Surface(Wire):
    """All of a model request but its messages: fixed before the call, so that a repeated call is the same call."""

    model: str
    prompt: tuple[PromptPart, ...]
    tools: tuple[ToolSpec, ...]
    params: ModelParams = ModelParams()
    fallbacks: tuple[str, ...] = ()
    """The models that are asked, in this order, if the first fails."""
    skipped: tuple[str, ...] = ()
    """Those that would be, but cannot do what is required."""
    output: dict[str, JsonValue] | None = None
    """The schema that the run's result must fit."""
    forgotten: int = 0
    """So many messages at the beginning of the thread are left out, and `note` stands in their place."""
    note: str = ""
    able: dict[str, tuple[Capability, ...]] | None = None
    """What the models of the chain can do that shapes a request; None in old files."""

    @model_validator(mode="before")
    @classmethod
    def _of_older_release(cls, given: JsonValue) -> JsonValue:
        """Older releases stored the prompt as one text."""
        if isinstance(given, dict) and isinstance(text := given.get("system"), str):
            return {**{name: each for name, each in given.items() if name != "system"}, "prompt": [{"text": text}]}
        return given

    @cached_property
    def system(self) -> str:
        return "\n\n".join(part.text for part in self.prompt)

    @cached_property
    def tool_names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.tools)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """`model` is the name without its provider; `key` is stable across retries after a crash. `agent`, `thread_id` and
    `run_id` say who is asking."""

    model: str
    system: str
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...]
    params: ModelParams
    key: str
    agent: str = ""
    thread_id: str = ""
    run_id: str = ""
    meter: Meter = field(default_factory=lambda: Meter(), compare=False)


@dataclass(slots=True)
class Meter:
    """What a call has used so far, for the case that it is stopped before its reply is whole; and when its first text
    came, by the process's clock."""

    usage: Usage | None = None
    began: float = 0.0
    first_text: float | None = None

    def text_came(self) -> None:
        if self.first_text is None:
            self.first_text = time.monotonic()

    @property
    def first_token_ms(self) -> int | None:
        return None if self.first_text is None else round(1000 * (self.first_text - self.began))


OnDelta = Callable[[str], None]


class Model(Protocol):
    """A provider of models.

    `respond` passes text to `on_delta` as it comes and returns the whole reply. It raises `ModelError` when the
    provider fails, and stops at once when it is canceled.
    """

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """Answer a request, and pass text to `on_delta` as it comes. Raise `ModelError` if that fails."""


@runtime_checkable
class Prepared(Protocol):
    """A provider that has something to load before its first call, such as an SDK."""

    def prepare(self) -> None: ...


@runtime_checkable
class Listed(Protocol):
    """A provider that has these models and no others: an agent that names another one is refused."""

    @property
    def model_names(self) -> frozenset[str]: ...


@runtime_checkable
class Described(Protocol):
    """A provider that knows its models. One that does not is asked for nothing special, and its cost is unknown."""

    def capabilities(self, model: str) -> frozenset[Capability]: ...

    def cost(self, model: str, usage: Usage) -> float | None:
        """In US dollars; None is unknown."""


@functools.cache
def _is_described(kind: type) -> bool:
    return issubclass(kind, Described)


def described(model: Model) -> Described | None:
    """The model, if it knows itself; asking a protocol takes its time, so each kind is asked once."""
    return model if _is_described(type(model)) else None  # type: ignore[return-value]  # that is what was asked


def capabilities(model: Model, name: str) -> frozenset[Capability]:
    known = described(model)
    return frozenset() if known is None else known.capabilities(name)
