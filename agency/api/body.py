"""The base of what clients send: unknown fields are refused, and null in a field that has a default means "not given".

Clients in other languages send null where they have nothing to say. That is only dropped where it could mean nothing
else: a field whose default is None keeps its null, which may be a value (a blueprint's `model: null` is the default
model). In a change of something, the defaults that count are those of the thing.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from agency.wire import Wire

Key = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
AgencyName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


def _none_if_empty(given: object) -> object:
    return None if given == "" else given


EmptyIsNone = BeforeValidator(_none_if_empty)
IdempotencyKey = Annotated[
    Key | None,
    EmptyIsNone,
    Field(description="A request that repeats a key gets the first answer and changes nothing."),
]


def example(**fields: Any) -> ConfigDict:
    """The configuration of a body with this example."""
    return ConfigDict(json_schema_extra={"examples": [fields]})


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
