"""JSON schemas from outside, compiled once and checked in Rust."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import JsonValue

from agency.errors import InvalidInput

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator as Validator


Schema = dict[str, JsonValue]


def validator(schema: Schema, what: str = "the output's schema") -> Validator:
    """In Rust, because a pattern that takes for ever in Python's `re` would take the whole process with it."""
    from jsonschema_rs import Draft202012Validator, ValidationError

    try:
        return Draft202012Validator(schema, retriever=_refuse)
    except (ValidationError, ValueError) as error:
        why = getattr(error, "message", None) or str(error)
        raise InvalidInput(f"{what} cannot be used: {why:.300}") from error


def _refuse(address: str) -> JsonValue:
    raise ValueError(f"it can only refer to its own parts, not to {address}")
