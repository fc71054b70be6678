"""JSON schemas from outside, compiled once and checked in Rust."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from pydantic import JsonValue

from agency.errors import InvalidInput

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator as Validator


Schema = dict[str, JsonValue]

PROBLEMS = 5
"""So many things that are wrong with a value are named."""


def validator(schema: Schema, what: str = "the output's schema", *, mask: str | None = None) -> Validator:
    """In Rust, because a pattern that takes for ever in Python's `re` would take the whole process with it. A `mask`
    stands in the messages where the value would."""
    from jsonschema_rs import Draft202012Validator, ValidationError

    try:
        return Draft202012Validator(schema, retriever=_refuse, mask=mask)
    except (ValidationError, ValueError) as error:
        why = getattr(error, "message", None) or str(error)
        raise InvalidInput(f"{what} cannot be used: {why:.300}") from error


def problems(checker: Validator, value: JsonValue) -> Iterator[str]:
    """What is wrong with a value, each with its place, as in `$.orders[0].cents: …`."""
    for problem in islice(checker.iter_errors(value), PROBLEMS):
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in problem.instance_path)
        yield f"${where}: {problem.message:.300}"


def _refuse(address: str) -> JsonValue:
    raise ValueError(f"it can only refer to its own parts, not to {address}")
