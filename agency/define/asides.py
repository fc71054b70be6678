"""Asides: model calls that a hook or a tool makes, beside those of the run itself.

The one idea: an aside belongs to the place that asks, and its reply is on disk before that place sees it. A place is a
call's key, or the turn, middleware and hook. Asked again there, after a crash or a retry, the same question gets the
reply that is stored and costs nothing; another question, be it by a letter, never gets it.

What is here says what is asked. How it is asked, recorded and charged to the run is in `agency/thread/asides.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel, JsonValue, TypeAdapter

from agency.define.blueprint import ModelChoice, Models
from agency.define.output import OutputType, as_schema
from agency.errors import InvalidInput, ToolError
from agency.json_schema import Schema
from agency.messages import Message, Usage
from agency.models.interface import ModelParams
from agency.secrets import without_secrets
from agency.validation import valid
from agency.wire import Wire, sayable_text

_MODELS: TypeAdapter[str | tuple[str | ModelChoice, ...]] = TypeAdapter(Models)
_MESSAGES: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...])


class Aside(Wire):
    """What a model has answered aside. `value` is what fits the schema, if `output` asked for one; `cut` says that the
    text ended at the output limit. A cost of None is unknown."""

    text: str
    value: JsonValue = None
    cut: bool = False
    model: str
    usage: Usage = Usage()
    cost_usd: float | None = 0.0


class AsideQuestion(Wire):
    """What is asked aside. Without a `model`, the agent's own are asked."""

    messages: tuple[Message, ...]
    system: str = ""
    model: Models | None = None
    params: ModelParams = ModelParams()
    output: Schema | None = None

    def digest(self) -> str:
        """Names the question, for the record of its reply."""
        return hashlib.blake2b(self.model_dump_json().encode(), digest_size=16).hexdigest()


@dataclass(slots=True)
class Place:
    """Where an aside is asked: its `key` is the same when the same code runs again. `by` is the tool's name or the
    middleware's, `call_id` the call's."""

    key: str
    by: str
    call_id: str | None = None
    asked: dict[str, int] | None = None
    """How often each question has been asked here."""

    def name(self, question: AsideQuestion) -> str:
        """The name of the next asking of a question: the same question twice is two asides."""
        digest = question.digest()
        self.asked = self.asked or {}
        count = self.asked[digest] = self.asked.get(digest, 0) + 1
        return f"{self.key}:{digest}:{count}"


class AsksModels(Protocol):
    """What puts a question to a model, on behalf of a place."""

    async def ask(self, place: Place, question: AsideQuestion, output: type[BaseModel] | None) -> Aside: ...


class AsksNothing:
    """In the place of it, where the thread cannot be reached."""

    async def ask(self, place: Place, question: AsideQuestion, output: type[BaseModel] | None) -> Aside:
        raise ToolError("a tool with `ray` options runs outside of its thread, and cannot ask a model from there")


def question_of(
    asked: str | Message | Sequence[Message],
    *,
    system: str = "",
    model: str | Sequence[str | ModelChoice] | None = None,
    params: ModelParams | Mapping[str, JsonValue] | None = None,
    output: OutputType | None = None,
) -> AsideQuestion:
    """The question, checked; `InvalidInput` says what is wrong with it."""
    if isinstance(asked, str):
        asked = Message(role="user", content=sayable_text(asked))
    messages = valid(_MESSAGES, (asked,) if isinstance(asked, Message) else tuple(asked), "messages")
    if not any(message.role == "user" and (message.content.strip() or message.images) for message in messages):
        raise InvalidInput("a model is asked with at least one message of the user that is not empty")
    return AsideQuestion(
        messages=tuple(_without_secrets(message) for message in messages),
        system=without_secrets(sayable_text(system)),
        model=None if model is None else valid(_MODELS, model if isinstance(model, str) else tuple(model), "model"),
        params=valid(_PARAMS, params or ModelParams(), "parameters"),
        output=None if output is None else as_schema(output),
    )


def _without_secrets(message: Message) -> Message:
    """What a model is not told, it does not answer, and so it is not recorded."""
    free = without_secrets(message.content)
    return message if free == message.content else message.model_copy(update={"content": free})


_PARAMS: TypeAdapter[ModelParams] = TypeAdapter(ModelParams)


def model_of(output: OutputType | None) -> type[BaseModel] | None:
    """The pydantic model that the answer must pass, beyond what its schema can say."""
    return output if isinstance(output, type) else None
