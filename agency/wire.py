"""The one base model for whatever is stored or sent: frozen, strict about unknown fields, camelCase outside."""

from __future__ import annotations

import math
import re

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, from_json


class Wire(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        serialize_by_alias=True,
        json_schema_serialization_defaults_required=True,  # what is sent has every field, also those with a default
    )


CHECKED = ConfigDict(revalidate_instances="always")
"""For dataclasses that other people make: checking one looks into it, and does not take its type for an answer."""


def sayable(value: JsonValue) -> JsonValue:
    """The value as JSON and UTF-8 can say it: models do produce lone surrogates and infinities."""
    match value:
        case str():
            return sayable_text(value)
        case list():
            return [sayable(each) for each in value]
        case float():
            return value if math.isfinite(value) else None  # as JSON has it
        case dict():
            return {sayable_text(key): sayable(each) for key, each in value.items()}
        case _:
            return value


def sayable_text(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def read_json(text: str) -> JsonValue:
    """What a text says as JSON; `ValueError` if it is none. Parsers take infinities, and JSON has none."""
    value: JsonValue = from_json(text)
    if not _is_finite(value):
        raise ValueError("it holds a number that JSON does not have")
    return value


def _is_finite(value: JsonValue) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case list():
            return all(_is_finite(each) for each in value)
        case dict():
            return all(_is_finite(each) for each in value.values())
        case _:
            return True


_NO_KIND = re.compile(r"Unable to extract tag using discriminator '(\w+)'")
_OTHER_KIND = re.compile(r"Input tag '.*' found using '(\w+)' does not match any of the expected tags: (.*)", re.DOTALL)


def explain(error: ValidationError, *, unknown: str | None = None) -> str:
    """What is wrong, in one line, without what the caller knows already. `unknown` is what is said of a field that is
    not there, with its `{name}`."""
    return "; ".join(_explained(each, unknown) for each in error.errors())


def _explained(each: ErrorDetails, unknown: str | None) -> str:
    name = ".".join(str(part) for part in each["loc"])
    if unknown is not None and each["type"] == "extra_forbidden":
        return unknown.format(name=name)
    return f"{name}: {plain_problem(each['msg'])}".removeprefix(": ")


def plain_problem(message: str) -> str:
    """What pydantic says of a value, without its word for a check of ours, with JSON's word for a tuple, and without
    its words for the field that tells the kinds of an object apart."""
    if found := _NO_KIND.fullmatch(message):
        return f"it needs a field {found[1]!r}"
    if found := _OTHER_KIND.fullmatch(message):
        return f"{found[1]!r} must be one of {found[2]}"
    return message.removeprefix("Value error, ").replace("a valid tuple", "a list")
