"""Checking a value that comes from outside against its type; what is wrong with it is an `InvalidInput`."""

from __future__ import annotations

from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from agency.errors import InvalidInput
from agency.wire import explain

Validated = TypeVar("Validated")


def valid(adapter: TypeAdapter[Validated], given: object, what: str) -> Validated:
    """The value as its type has it. `what` names it in the error: "wrong limits: …"."""
    try:
        return adapter.validate_python(given)
    except ValidationError as error:
        raise InvalidInput(f"wrong {what}: {explain(error)}") from error
