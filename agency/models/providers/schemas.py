"""A JSON schema as each API accepts it for structured output.

Each takes a part of JSON Schema only, and refuses the whole request for one keyword more. So what it does not take is
left out, as long as whatever fits the rest may fit the schema too; we check the result ourselves, against the schema as
it was given. Where that cannot be done, the model is asked in words (`in_words`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = dict[str, Any]

_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_SAID = frozenset({"description", "title"})
_COMMON = frozenset({"type", "enum", "const", "anyOf", "$ref", "$defs", "definitions", "format"}) | _SAID
_DEFINING = ("$defs", "definitions")
_REFERRING = frozenset({"$ref", *_DEFINING})
_SHAPES = frozenset({"properties", "required", "additionalProperties", "items"})
_STRICT = (  # what OpenAI takes with `strict`
    _COMMON
    | _SHAPES
    | {"pattern", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"}
)
_UNSAID = frozenset({"default", "examples", "$schema", "$id", "$comment", "readOnly", "writeOnly", "deprecated"})
"""What restricts nothing."""
_DEEPEST = 10
_OPTIONALS = 24
_UNIONS = 16


def in_words(schema: Mapping[str, Any]) -> str:
    """What is asked of a model that cannot be held to this schema."""
    written = json.dumps(schema, ensure_ascii=False)
    return f"Answer with JSON and nothing else. It must fit this JSON schema:\n{written}"


def for_openai(schema: Mapping[str, Any]) -> tuple[Schema, bool]:
    """The schema, and whether the model can be held to it strictly."""
    given = dict(schema)
    if not _is_open(given) and given.get("type") == "object" and _fits(closed := _closed(given), 1):
        return closed, True
    return given, False


def for_anthropic(schema: Mapping[str, Any]) -> Schema | None:
    """The schema as the model can be held to it, or None if it cannot."""
    given = dict(schema)
    if _is_open(given) or _is_recursive(given):
        return None
    reduced = _reduced(given)
    return None if _is_too_much(reduced) else reduced


# Looking at all parts of a schema.


def _parts(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The schemas directly within one, with the keyword under which each stands."""
    for keyword in ("properties", "$defs", "definitions", "patternProperties"):
        for part in _mapping(schema.get(keyword)).values():
            yield keyword, part
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for part in schema.get(keyword) or ():
            yield keyword, part
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield keyword, schema[keyword]


def _is_open(schema: object) -> bool:
    """Whether some object in it may have keys that it does not name, or some value any shape: no API can be told."""
    if not isinstance(schema, dict):
        return True
    more = schema.get("additionalProperties")
    if isinstance(more, dict) or schema.get("patternProperties"):
        return True
    if schema.get("type") == "object" and "properties" not in schema and more is not False:
        return True
    if schema.get("type") == "array" and not isinstance(schema.get("items"), dict):
        return True
    shaped = ("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref")
    return not any(word in schema for word in shaped) or any(_is_open(part) for _, part in _parts(schema))


def _is_recursive(schema: Schema) -> bool:
    """Whether a definition leads back to itself, or a reference anywhere but to a definition."""
    defined = {f"#/{at}/{name}": part for at in _DEFINING for name, part in _mapping(schema.get(at)).items()}
    sound: set[str] = set()  # definitions that have been followed to their ends, each once

    def leads_astray(part: Schema, above: frozenset[str]) -> bool:
        target = part.get("$ref")
        if target is None:
            return any(leads_astray(each, above) for at, each in _parts(part) if at not in _DEFINING)
        if target in sound:
            return False
        if target in above or target not in defined or leads_astray(defined[target], above | {target}):
            return True
        sound.add(target)
        return False

    return any(leads_astray({"$ref": each}, frozenset()) for each in defined) or leads_astray(schema, frozenset())


def _is_too_much(schema: Schema) -> bool:
    """Whether it is more than Anthropic compiles."""
    every = list(_all_parts(schema))
    missing = sum(len(_mapping(each.get("properties")).keys() - set(each.get("required") or ())) for each in every)
    joined = any("$ref" in part for each in every for part in each.get("allOf") or ())
    return joined or missing > _OPTIONALS or sum("anyOf" in each for each in every) > _UNIONS


def _all_parts(schema: Schema) -> Iterator[Schema]:
    yield schema
    for _, part in _parts(schema):
        yield from _all_parts(part)


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


# OpenAI.


def _closed(schema: Schema) -> Schema:
    """Every object with the keys that it names and no others, and nothing said that restricts nothing."""
    kept = {word: value for word, value in schema.items() if word not in _UNSAID}
    if kept.get("type") == "object":
        kept["additionalProperties"] = False
    return _with_parts(kept, _closed)


def _with_parts(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    changed = dict(schema)
    for word in ("properties", "$defs", "definitions"):
        if word in changed:
            changed[word] = {name: change(part) for name, part in _mapping(changed[word]).items()}
    for word in ("anyOf", "oneOf", "allOf"):
        if word in changed:
            changed[word] = [change(part) for part in changed[word]]
    if isinstance(changed.get("items"), dict):
        changed["items"] = change(changed["items"])
    return changed


def _fits(schema: Schema, depth: int) -> bool:
    """Whether it is of the part that OpenAI takes with `strict`."""
    if depth > _DEEPEST or schema.keys() - _STRICT:
        return False
    if "$ref" in schema and schema.keys() - _REFERRING:
        return False
    if schema.get("format", "date") not in _FORMATS:
        return False
    if set(schema.get("required") or ()) != set(schema.get("properties") or ()):
        return False  # what may be missing
    return all(_fits(part, depth if at in _DEFINING else depth + 1) for at, part in _parts(schema))


# Anthropic.


def _reduced(schema: Schema) -> Schema:
    """The schema without what the API refuses, which is told to the model instead."""
    match schema.get("allOf"):
        case [dict(same)] if not schema.keys() - _SAID - {"allOf"}:
            schema = {**{word: said for word, said in schema.items() if word != "allOf"}, **same}
    if "$ref" in schema:
        return _with_parts({word: schema[word] for word in schema if word in _REFERRING}, _reduced)
    schema = _one_kind(schema)
    kept = {word: value for word, value in schema.items() if word in _COMMON | _SHAPES | {"allOf"}}
    if "enum" in kept and not all(_is_plain(value) for value in kept["enum"]):
        del kept["enum"]
    if "const" in kept and not _is_plain(kept["const"]):
        del kept["const"]
    if kept.get("format", "date") not in _FORMATS | {"uri"}:
        del kept["format"]
    if kept.get("type") == "object":
        kept["additionalProperties"] = False
    if schema.get("minItems") in (0, 1):
        kept["minItems"] = schema["minItems"]
    refused = {word: value for word, value in schema.items() if word not in kept and word not in _UNSAID}
    if refused:
        told = f"It must also fit: {json.dumps(refused, ensure_ascii=False)}"
        kept["description"] = f"{kept['description']}\n{told}" if kept.get("description") else told
    return _with_parts(kept, _reduced)


def _one_kind(schema: Schema) -> Schema:
    """The schema with `anyOf` for its `oneOf`, and for a list of types."""
    if "oneOf" in schema and "anyOf" not in schema:
        schema = {("anyOf" if word == "oneOf" else word): value for word, value in schema.items()}
    if not isinstance(schema.get("type"), list):
        return schema
    kinds = schema["type"]
    about = {word: value for word, value in schema.items() if word in _SAID}
    rest = {word: value for word, value in schema.items() if word != "type" and word not in _SAID}
    return {**about, "anyOf": [{**(rest if kind != "null" else {}), "type": kind} for kind in kinds]}


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)
