"""Arguments for a tool of which only its JSON schema is known: what the demo model calls a user's tools with.

The same schema and words give the same arguments: a call that is repeated after a crash is the same call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from agency.models.interface import ToolSpec

_BY_FORMAT: dict[JsonValue, str] = {
    "date": "2025-01-01",
    "date-time": "2025-01-01T12:00:00Z",
    "time": "12:00:00Z",
    "email": "demo@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_DEEPEST = 8
"""Schemas may refer to themselves."""


def made_up_arguments(tool: ToolSpec, words: str, file: str | None) -> dict[str, JsonValue]:
    """The arguments that a tool requires. Texts become `words`, and paths become `file`, if there is one."""
    return _Maker(words, file, tool.parameters).object_of(tool.parameters, 0)


@dataclass(frozen=True, slots=True)
class _Maker:
    words: str
    file: str | None
    root: JsonValue
    """The whole schema, which references point into."""

    def object_of(self, schema: JsonValue, depth: int) -> dict[str, JsonValue]:
        required = strings(at(schema, "required"))
        return {name: self._value(at(schema, "properties", name), name, depth + 1) for name in required}

    def _value(self, schema: JsonValue, name: str, depth: int) -> JsonValue:
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return self.words
        if isinstance(reference := schema.get("$ref"), str):
            return self._value(at(self.root, *reference.removeprefix("#/").split("/")), name, depth + 1)
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        for key in ("enum", "examples"):
            if isinstance(values := schema.get(key), list) and values:
                return values[0]
        for key in ("anyOf", "oneOf", "allOf"):
            if isinstance(choices := schema.get(key), list) and choices:
                return self._value(choices[0], name, depth + 1)
        match schema.get("type"):
            case "boolean":
                return True
            case "integer" | "number":
                return _number(schema)
            case "array":
                return [self._value(schema.get("items"), name, depth + 1)]
            case "object":
                return dict(self.object_of(schema, depth))
            case "null":
                return None
            case _:
                return self._text(schema, name)

    def _text(self, schema: Mapping[str, JsonValue], name: str) -> str:
        if schema.get("format") in _BY_FORMAT:
            return _BY_FORMAT[schema["format"]]
        if self.file is not None and re.search(r"path|file", name, re.I):
            return self.file
        longest = schema.get("maxLength")
        return self.words[:longest] if isinstance(longest, int) else self.words


def _number(schema: Mapping[str, JsonValue]) -> JsonValue:
    least, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    if isinstance(least, int | float):
        return least
    return above + 1 if isinstance(above, int | float) else 1


def at(value: JsonValue, *keys: str) -> JsonValue:
    """What is at a path inside JSON; None if there is nothing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def strings(value: JsonValue) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
