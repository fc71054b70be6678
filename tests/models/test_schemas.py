"""Schemas as the APIs take them. Whatever they are reduced to, what fits the whole schema must fit that too."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from agency.models.providers.schemas import for_anthropic, for_openai


class Line(BaseModel):
    sku: str
    count: int = Field(ge=1, le=99)


class Order(BaseModel):
    """An order."""

    id: str
    lines: list[Line]


class Note(BaseModel):
    text: str = Field(min_length=3)
    author: str | None = None
    tags: list[str] = Field(default=[], max_length=5)


class Tree(BaseModel):
    name: str
    children: list[Tree]


class Table(BaseModel):
    cells: dict[str, int]


def test_a_model_whose_fields_are_all_required_is_strict_at_openai() -> None:
    schema, strict = for_openai(Order.model_json_schema())
    assert strict
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Line"]["additionalProperties"] is False
    assert schema["$defs"]["Line"]["properties"]["count"]["maximum"] == 99


@pytest.mark.parametrize("model", [Note, Table])
def test_what_openai_would_refuse_to_be_strict_about_is_sent_as_it_is(model: type[BaseModel]) -> None:
    given = model.model_json_schema()
    assert for_openai(given) == (given, False)


def test_a_tree_is_strict_at_openai_and_nothing_for_anthropic() -> None:
    given = {**Tree.model_json_schema(), "type": "object", "properties": {"root": {"$ref": "#/$defs/Tree"}}}
    given = {**given, "required": ["root"]}
    given.pop("$ref", None)
    assert for_openai(given)[1]
    assert for_anthropic(given) is None


@pytest.mark.parametrize(
    "part",
    [
        {"type": "string", "minLength": 1},
        {"type": "string", "format": "color"},
        {"allOf": [{"type": "string"}]},
        {"not": {"type": "string"}, "type": "integer"},
        {"$ref": "#/$defs/a", "description": "said beside a reference"},
        {"type": "array"},
        {},
        True,
    ],
)
def test_one_keyword_that_is_not_strict_makes_the_whole_not_strict(part: Any) -> None:
    given = {"type": "object", "properties": {"a": part}, "required": ["a"], "$defs": {"a": {"type": "string"}}}
    assert for_openai(given) == (given, False)


def test_what_restricts_nothing_does_not_count() -> None:
    part = {"type": "string", "default": "x", "examples": ["y"]}
    given = {
        "$schema": "-",
        "type": "object",
        "properties": {"a": part},
        "required": ["a"],
        "additionalProperties": True,
    }
    schema, strict = for_openai(given)
    assert strict
    assert schema["properties"] == {"a": {"type": "string"}}


def test_what_anthropic_refuses_is_said_to_the_model_instead() -> None:
    schema = for_anthropic(Note.model_json_schema())
    assert schema is not None
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["text"]
    text, author, tags = (schema["properties"][name] for name in ("text", "author", "tags"))
    assert text == {"type": "string", "title": "Text", "description": 'It must also fit: {"minLength": 3}'}
    assert author["anyOf"] == [{"type": "string"}, {"type": "null"}]
    assert "maxItems" in tags["description"]
    assert "maxItems" not in tags


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        ({"type": ["string", "null"]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}),
        ({"allOf": [{"type": "string"}], "title": "A"}, {"type": "string", "title": "A"}),
        ({"enum": ["a", 1, None]}, {"enum": ["a", 1, None]}),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
        ),
        (
            {"type": "string", "format": "color"},
            {"type": "string", "description": 'It must also fit: {"format": "color"}'},
        ),
        (
            {"type": "object", "properties": {}, "additionalProperties": True},
            {"type": "object", "properties": {}, "additionalProperties": False},
        ),
    ],
)
def test_how_anthropic_has_it(part: dict[str, Any], sent: dict[str, Any]) -> None:
    assert for_anthropic(part) == sent


@pytest.mark.parametrize(
    "given",
    [
        Table.model_json_schema(),
        Tree.model_json_schema(),
        {"type": "object"},
        {"type": "array"},
        {"type": "object", "properties": {"any": {}}},
        {"$ref": "https://example.org/schema"},
        {"$ref": "#"},
        {"type": "object", "properties": {}, "patternProperties": {"^a": {"type": "string"}}},
        {"allOf": [{"$ref": "#/$defs/a"}, {"type": "object"}], "$defs": {"a": {"type": "string"}}},
        {"type": "object", "properties": {f"optional{number}": {"type": "string"} for number in range(25)}},
        {"type": "array", "items": {"anyOf": [{"anyOf": [{"type": "string"}]}] * 17}},
    ],
)
def test_what_anthropic_cannot_be_told_is_left_to_words(given: dict[str, Any]) -> None:
    assert for_anthropic(given) is None


def test_definitions_that_share_their_parts_are_followed_once_each() -> None:
    defined: dict[str, Any] = {"d40": {"type": "string"}}
    for number in reversed(range(40)):
        part = {"$ref": f"#/$defs/d{number + 1}"}
        properties = {"a": part, "b": part}
        defined[f"d{number}"] = {"type": "object", "properties": properties, "required": ["a", "b"]}
    schema = for_anthropic({"$ref": "#/$defs/d0", "$defs": defined})
    assert schema is not None
    assert schema["$defs"]["d0"]["additionalProperties"] is False
