"""The base of what clients send: unknown fields are refused, and null in a field that has a default means "not given".

Clients in other languages send null where they have nothing to say. That is only dropped where it could mean nothing
else: a field whose default is None keeps its null, which may be a value (a blueprint's `model: null` is the default
model). In a change of something, the defaults that count are those of the thing.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from agency.wire import Wire


class Body(Wire):
    changes: ClassVar[type[Wire] | None] = None
    """What a body with these fields changes, if it is a change."""

    @model_validator(mode="before")
    @classmethod
    def _null_is_not_given(cls, given: Any) -> Any:
        if not isinstance(given, dict) or None not in given.values():
            return given
        return {name: value for name, value in given.items() if value is not None or not cls._drops_null(name)}

    @classmethod
    def _drops_null(cls, name: str) -> bool:
        """Whether null in a field, by either of its names, can only mean "not given"."""
        for key, field in cls.model_fields.items():
            if name in (key, field.alias):
                thing = field if cls.changes is None else cls.changes.model_fields.get(key, field)
                return not field.is_required() and thing.default is not None
        return False
