"""A function's hints and docstring become a tool's schema; a function that cannot be a tool fails where it is defined.

This module has `from __future__ import annotations`, so every hint here is a string that `tool` has to resolve.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field, JsonValue

from agency import DefinitionError, InvalidInput, RetryPolicy, Tool, ToolContext, tool
from agency.define.arguments import AnyFunction


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Street(BaseModel):
    name: str
    number: int = Field(ge=1, description="The house.")


class Address(BaseModel):
    """Where somebody lives."""

    title: str
    street: Street
    tags: list[str] = []


def schema_of(made: Tool) -> dict[str, Any]:
    return made.spec.parameters


def property_of(made: Tool, name: str) -> dict[str, Any]:
    properties: dict[str, dict[str, Any]] = schema_of(made)["properties"]
    return properties[name]


def place(function: AnyFunction) -> str:
    return f"{__file__}:{function.__code__.co_firstlineno}"


# Schemas.


def test_plain_types_become_their_json_types_and_parameters_without_default_are_required() -> None:
    @tool
    def plain(text: str, count: int, share: float, sure: bool = False) -> str:
        return text

    assert schema_of(plain) == {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "count": {"type": "integer"},
            "share": {"type": "number"},
            "sure": {"type": "boolean", "default": False},
        },
        "required": ["text", "count", "share"],
        "additionalProperties": False,
    }


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    @tool
    def ping() -> str:
        return "pong"

    assert schema_of(ping) == {"type": "object", "properties": {}, "additionalProperties": False}
    assert ping.bind({}) == {}


def test_optional_allows_null_and_is_required_unless_it_has_a_default() -> None:
    @tool
    def search(needed: Optional[str], left_out: int | None = None) -> str:  # noqa: UP045  # the old spelling, too
        return ""

    assert property_of(search, "needed") == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert property_of(search, "left_out") == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert schema_of(search)["required"] == ["needed"]


def test_lists_and_dicts_say_what_they_hold() -> None:
    @tool
    def sort(rows: list[dict[str, int]], names: dict[str, list[str]]) -> str:
        return ""

    assert property_of(sort, "rows") == {
        "type": "array",
        "items": {"type": "object", "additionalProperties": {"type": "integer"}},
    }
    assert property_of(sort, "names") == {
        "type": "object",
        "additionalProperties": {"type": "array", "items": {"type": "string"}},
    }


def test_enums_and_literals_list_their_values() -> None:
    @tool
    def paint(colour: Colour, size: Size = Size.LARGE, coat: Literal["thin", "thick"] = "thin") -> str:
        return ""

    assert schema_of(paint)["$defs"]["Colour"] == {"type": "string", "enum": ["red", "blue"]}
    assert property_of(paint, "colour") == {"$ref": "#/$defs/Colour"}
    assert property_of(paint, "size") == {"$ref": "#/$defs/Size", "default": "large"}
    assert property_of(paint, "coat") == {"type": "string", "enum": ["thin", "thick"], "default": "thin"}
    assert paint.bind({"colour": "blue"}) == {"colour": Colour.BLUE, "size": Size.LARGE, "coat": "thin"}


def test_nested_models_are_described_whole_and_arrive_as_models() -> None:
    @tool
    def move(address: Address, former: list[Address] | None = None) -> str:
        return ""

    definitions = schema_of(move)["$defs"]
    assert definitions["Street"]["properties"]["number"] == {
        "type": "integer",
        "minimum": 1,
        "description": "The house.",
    }
    assert definitions["Address"]["description"] == "Where somebody lives."
    given: dict[str, JsonValue] = {"title": "home", "street": {"name": "Elm", "number": 3}}
    assert move.bind({"address": given})["address"] == Address(title="home", street=Street(name="Elm", number=3))


def test_no_titles_are_sent_but_a_field_called_title_is() -> None:
    @tool
    def file(title: str, address: Address) -> str:
        return ""

    assert property_of(file, "title") == {"type": "string"}
    assert "title" not in schema_of(file)
    assert "title" not in schema_of(file)["$defs"]["Address"]
    assert schema_of(file)["$defs"]["Address"]["properties"]["title"] == {"type": "string"}


def test_a_default_is_shown_as_it_is_even_if_it_has_a_key_called_title() -> None:
    @tool
    def save(meta: dict[str, str] = {"title": "untitled"}) -> str:  # noqa: B006  # what is tested
        return ""

    assert property_of(save, "meta")["default"] == {"title": "untitled"}


def test_a_mutable_default_is_not_shared_between_calls() -> None:
    @tool
    def collect(into: list[str] = []) -> str:  # noqa: B006  # what is tested
        return ""

    collect.bind({})["into"].append("left behind")
    assert collect.bind({}) == {"into": []}


def test_annotated_fields_bring_constraints_and_descriptions() -> None:
    @tool
    def page(
        size: Annotated[int, Field(ge=1, le=100, description="Rows on a page.")] = 20,
        start: int = Field(default=0, ge=0),
    ) -> str:
        return ""

    assert property_of(page, "size") == {
        "type": "integer",
        "minimum": 1,
        "maximum": 100,
        "default": 20,
        "description": "Rows on a page.",
    }
    assert property_of(page, "start") == {"type": "integer", "minimum": 0, "default": 0}
    with pytest.raises(InvalidInput, match="size"):
        page.bind({"size": 101})


def test_the_docstring_describes_the_tool_and_its_parameters() -> None:
    @tool
    def refund(order_id: str, cents: int, why: Annotated[str, Field(min_length=3)] = "none given") -> str:
        """Refund an order.

        Only once for each order.

        Args:
            order_id: The order's number,
                as the customer sees it.
            cents: How much.
            why: The reason.

        Returns:
            The receipt.
        """
        return ""

    assert refund.spec.description == "Refund an order.\n\nOnly once for each order."
    assert property_of(refund, "order_id")["description"] == "The order's number,\nas the customer sees it."
    assert property_of(refund, "cents")["description"] == "How much."
    assert property_of(refund, "why") == {
        "type": "string",
        "minLength": 3,
        "default": "none given",
        "description": "The reason.",
    }


def test_the_docstring_describes_a_parameter_whose_default_is_a_field() -> None:
    @tool
    def page(size: int = Field(default=20, ge=1)) -> str:
        """Show a page.

        Args:
            size: Rows on a page.
        """
        return ""

    assert property_of(page, "size") == {
        "type": "integer",
        "minimum": 1,
        "default": 20,
        "description": "Rows on a page.",
    }


def test_an_alias_is_what_the_model_sees_and_the_name_what_the_function_gets() -> None:
    @tool
    def edit(
        old_string: Annotated[str, Field(alias="oldString")], replace_all: bool = Field(False, alias="all")
    ) -> str:
        return ""

    assert list(schema_of(edit)["properties"]) == ["oldString", "all"]
    assert schema_of(edit)["required"] == ["oldString"]
    assert edit.bind({"oldString": "a", "all": True}) == {"old_string": "a", "replace_all": True}
    assert edit.bind({"old_string": "a"}) == {"old_string": "a", "replace_all": False}
    with pytest.raises(InvalidInput, match="oldString"):
        edit.bind({})


@pytest.mark.parametrize("name", ["json", "copy", "schema", "model_dump"])
def test_a_parameter_may_have_a_name_that_pydantic_models_use_themselves(name: str) -> None:
    def function(word: str) -> str:
        return word

    code = function.__code__
    function.__code__ = code.replace(co_varnames=(name, *code.co_varnames[1:]))
    function.__annotations__ = {name: "str", "return": "str"}
    made = tool(function)
    assert property_of(made, name) == {"type": "string"}
    assert made.bind({name: "x"}) == {name: "x"}


# The context.


def test_the_context_is_left_out_of_the_schema_wherever_it_stands() -> None:
    @tool
    def first(ctx: ToolContext, order: str) -> str:
        return order

    @tool
    def middle(order: str, ctx: ToolContext, cents: int = 1) -> str:
        return order

    @tool
    def last(order: str, *, context: ToolContext) -> str:
        return order

    @tool
    def alone(call: ToolContext) -> str:
        return ""

    assert [made.arguments.context_parameter for made in (first, middle, last, alone)] == [
        "ctx",
        "ctx",
        "context",
        "call",
    ]
    assert [list(schema_of(made)["properties"]) for made in (first, middle, last, alone)] == [
        ["order"],
        ["order", "cents"],
        ["order"],
        [],
    ]
    with pytest.raises(InvalidInput, match="ctx"):
        first.bind({"order": "7", "ctx": {}})


def test_a_tool_without_context_has_no_context_parameter() -> None:
    @tool
    def ping(ctx: str) -> str:
        return ctx

    assert ping.arguments.context_parameter is None
    assert ping.bind({"ctx": "an ordinary word"}) == {"ctx": "an ordinary word"}


# Ways to define one.


def test_bare_a_tool_has_the_cautious_defaults() -> None:
    @tool
    def ping() -> str:
        """Answer."""
        return "pong"

    assert (ping.name, ping.spec.name, ping.spec.description) == ("ping", "ping", "Answer.")
    assert (ping.safe, ping.idempotent, ping.in_doubt, ping.risk) == (False, True, "report", "low")
    assert (ping.timeout, ping.retry) == (None, None)


def test_options_are_kept_and_override_name_and_description() -> None:
    policy = RetryPolicy(attempts=2)

    @tool(
        name="pay",
        description="Pay now.",
        safe=True,
        idempotent=False,
        in_doubt="ask",
        risk="high",
        timeout=2.5,
        retry=policy,
    )
    def transfer(cents: int) -> str:
        """Not this."""
        return ""

    assert (transfer.name, transfer.spec.name, transfer.spec.description) == ("pay", "pay", "Pay now.")
    assert (transfer.safe, transfer.idempotent, transfer.in_doubt, transfer.risk) == (True, False, "ask", "high")
    assert (transfer.timeout, transfer.retry) == (2.5, policy)


def test_sync_and_async_functions_are_told_apart() -> None:
    @tool
    def here() -> str:
        return "sync"

    @tool(safe=True)
    async def there() -> str:
        return "async"

    assert not here.is_async
    assert there.is_async
    assert here.function() == "sync"
    assert asyncio.run(there.function()) == "async"


def test_a_function_without_docstring_has_an_empty_description() -> None:
    @tool
    def silent() -> str:
        return ""

    assert silent.spec.description == ""


def test_hints_may_name_classes_that_are_local_to_the_defining_function() -> None:
    class Mood(Enum):
        GOOD = "good"

    class Person(BaseModel):
        mood: str

    @tool
    def bare(mood: Mood, person: Person) -> str:
        return ""

    @tool(safe=True)
    async def with_options(people: list[Person]) -> str:
        return ""

    def plain(person: Person) -> str:
        return ""

    assert bare.bind({"mood": "good", "person": {"mood": "fine"}}) == {"mood": Mood.GOOD, "person": Person(mood="fine")}
    assert with_options.bind({"people": [{"mood": "bad"}]}) == {"people": [Person(mood="bad")]}
    assert tool(plain).bind({"person": {"mood": "so so"}}) == {"person": Person(mood="so so")}


# Wrong definitions.


class NoSchema:
    pass


def unhinted(order, cents: int) -> str:  # type: ignore[no-untyped-def]  # what is tested
    return ""


def many(*orders: str) -> str:
    return ""


def anything(**options: str) -> str:
    return ""


def by_place(order: str, /) -> str:
    return ""


def without_schema(thing: NoSchema) -> str:
    return ""


def calls_back(then: Callable[[int], int]) -> str:
    return ""


def two_contexts(one: ToolContext, order: str, other: ToolContext) -> str:
    return ""


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (unhinted, "'order' has no type hint"),
        (many, r"\*orders.*ordinary named"),
        (anything, r"\*\*options.*ordinary named"),
        (by_place, "order.*ordinary named"),
        (without_schema, "no schema.*NoSchema"),
        (calls_back, "no schema"),
        (two_contexts, "context"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_what_cannot_be_a_tool_is_refused_with_its_name_and_place(function: AnyFunction, complaint: str) -> None:
    with pytest.raises(DefinitionError, match=complaint) as refused:
        tool(function)
    assert repr(function.__name__) in str(refused.value)
    assert place(function) in str(refused.value)


@pytest.mark.parametrize("hint", ["Nowhere", "list[Nowhere]", "asyncio.Nowhere", "no type at all"])
def test_a_hint_that_cannot_be_resolved_is_refused_with_name_and_place(hint: str) -> None:
    def lost(where: str) -> str:
        return where

    lost.__annotations__["where"] = hint
    with pytest.raises(DefinitionError, match="cannot resolve its type hints") as refused:
        tool(lost)
    assert f"'lost' ({place(lost)})" in str(refused.value)


@pytest.mark.parametrize("timeout", [0, -1, -0.5])
def test_a_timeout_that_is_not_positive_is_refused_with_name_and_place(timeout: float) -> None:
    def hasty() -> str:
        return ""

    with pytest.raises(DefinitionError, match="timeout: Input should be greater than 0") as refused:
        tool(timeout=timeout)(hasty)
    assert f"'hasty' ({place(hasty)})" in str(refused.value)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(DefinitionError, match="partial"):
        tool(functools.partial(by_place, "7"))


@pytest.mark.parametrize("name", ["two words", "semi;colon", "ünïcode", "x" * 65])
def test_a_name_that_model_providers_refuse_is_refused_at_the_definition(name: str) -> None:
    def ping() -> str:
        return ""

    with pytest.raises(DefinitionError, match="name"):
        tool(name=name)(ping)


# Arguments.


@tool
def order(item: str, count: int, gift: bool = False, notes: list[str] | None = None) -> str:
    return ""


def test_arguments_are_coerced_to_the_hinted_types() -> None:
    assert order.bind({"item": "pen", "count": "5", "gift": "true"}) == {
        "item": "pen",
        "count": 5,
        "gift": True,
        "notes": None,
    }


@pytest.mark.parametrize(
    ("args", "fields"),
    [
        ({}, ["item: Field required", "count: Field required"]),
        ({"item": "pen", "count": "five"}, ["count: "]),
        ({"item": None, "count": 1.5}, ["item: ", "count: "]),
        ({"item": "pen", "count": 1, "notes": ["a", {}]}, ["notes.1: "]),
        ({"item": "pen", "count": 1, "colour": "red"}, ["there is no argument colour"]),
    ],
)
def test_wrong_arguments_are_refused_naming_every_field_that_is_wrong(args: JsonValue, fields: list[str]) -> None:
    with pytest.raises(InvalidInput, match="wrong arguments for order") as refused:
        order.bind(args)
    for field in fields:
        assert field in str(refused.value)


@pytest.mark.parametrize("args", [None, "text", 5, True, ["item", "pen"], "[]"])
def test_arguments_that_are_no_object_are_refused(args: JsonValue) -> None:
    with pytest.raises(InvalidInput, match="arguments of order must be a JSON object"):
        order.bind(args)


def test_a_refusal_does_not_repeat_endless_arguments() -> None:
    with pytest.raises(InvalidInput) as refused:
        order.bind("x" * 100_000)
    assert len(str(refused.value)) < 1_000
