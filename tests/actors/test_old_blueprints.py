"""Blueprints that an agency stored before risky tools needed approvals: threads begin, and the list warns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.agency.catalogue import Catalogue
from agency import AgentSystem, Blueprint, DefinitionError, tool
from middleware import hitl

NOW = "2026-01-01T00:00:00.000Z"


@tool(risk="high")
async def refund(cents: int) -> str:
    """Refund something."""
    return "refunded"


class Rows:
    """What an agency's file holds."""

    def __init__(self, *stored: str) -> None:
        self.stored = {each.name: each for each in map(Blueprint.model_validate_json, stored)}

    def blueprints(self) -> list[tuple[Blueprint, str, str]]:
        return [(each, NOW, NOW) for each in self.stored.values()]

    def blueprint(self, name: str) -> Blueprint | None:
        return self.stored.get(name)

    def providers(self) -> list[Any]:
        return []

    def put_blueprint(self, blueprint: Blueprint, at: str) -> None:
        self.stored[blueprint.name] = blueprint


@pytest.fixture
def rows() -> Rows:
    return Rows('{"name": "clerk", "prompt": "You refund."}')


@pytest.fixture
def catalogue(rows: Rows) -> Catalogue:
    system = AgentSystem("demo:instant").use(hitl).add_tool(refund)
    context = SimpleNamespace(store=rows, system=lambda: system, settings=SimpleNamespace(providers={}))
    return Catalogue(cast(Any, context))


async def test_threads_of_it_can_be_made_and_the_list_warns(catalogue: Catalogue) -> None:
    catalogue.check(catalogue.active("clerk"))
    (listed,) = await catalogue.blueprints()
    assert (listed.unattended, listed.unattended_tools) == (None, ("refund",))
    assert "refund would need a person's approval" in listed.warnings[0]


async def test_changing_it_needs_a_word_on_that_and_disabling_it_does_not(catalogue: Catalogue, rows: Rows) -> None:
    with pytest.raises(DefinitionError, match="would run refund"):
        await catalogue.put_blueprint({"name": "clerk", "prompt": "You refund politely."})
    assert rows.stored["clerk"].prompt == "You refund."
    assert (await catalogue.put_blueprint({"name": "clerk", "status": "disabled"})).status == "disabled"
    with pytest.raises(DefinitionError, match="would run refund"):
        await catalogue.put_blueprint({"name": "clerk", "status": "active"})
    made = await catalogue.put_blueprint({"name": "clerk", "status": "active", "tags": ["default", "hitl"]})
    assert (made.unattended, made.unattended_tools, made.warnings) == (False, (), ())


async def test_a_model_that_its_provider_never_had_keeps_threads_of_it_but_no_new_definition(
    catalogue: Catalogue, rows: Rows
) -> None:
    rows.stored["typist"] = Blueprint(name="typist", prompt="You type.", tags=(), model="demo:defualt")
    catalogue.check(catalogue.active("typist"))
    with pytest.raises(DefinitionError, match="there is no model 'demo:defualt'; that provider has default, instant"):
        await catalogue.put_blueprint({"name": "typist", "description": "Types."})
