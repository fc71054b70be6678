"""Blueprints that an agency stored before risky tools needed approvals: threads begin, and the list warns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from pydantic_core import from_json

from actors import Settings
from actors.agency.catalogue import Catalogue
from actors.agency.context import AgencyContext
from actors.agency.store import AgencyStore
from agency import AgentSystem, Blueprint, DefinitionError, tool
from agency.api.tenancy import AgencyInfo
from middleware import hitl

NOW = "2026-01-01T00:00:00.000Z"


@tool(risk="high")
async def refund(cents: int) -> str:
    """Refund something."""
    return "refunded"


class Rows(AgencyStore):
    """An agency's file, with what an earlier release has written into it."""

    def keep(self, body: str) -> None:
        self.write(
            (
                "INSERT INTO blueprints (name, body, created_at, updated_at) VALUES (?, ?, ?, ?)",
                (from_json(body)["name"], body, NOW, NOW),
            )
        )


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    info = AgencyInfo(id="agc", name="Bakery", created_at=NOW)
    opened = Rows.open(tmp_path / "agency.db", Settings(system="a:b").files, info)
    assert isinstance(opened, Rows)
    opened.keep('{"name": "clerk", "prompt": "You refund."}')
    yield opened
    opened.close()


@pytest.fixture
def catalogue(rows: Rows) -> Catalogue:
    system = AgentSystem("demo:instant").use(hitl).add_tool(refund)
    office = SimpleNamespace(give_way=AsyncMock())
    return Catalogue(AgencyContext("agc", rows, Settings(system="a:b"), lambda: system, cast(Any, office)))


async def test_threads_of_it_can_be_made_and_the_list_warns(catalogue: Catalogue) -> None:
    catalogue.check(catalogue.active("clerk"))
    (listed,) = (await catalogue.blueprints()).blueprints
    assert (listed.unattended, listed.unattended_tools) == (None, ("refund",))
    assert "refund would need a person's approval" in listed.warnings[0]


async def test_changing_it_needs_a_word_on_that_and_disabling_it_does_not(catalogue: Catalogue, rows: Rows) -> None:
    with pytest.raises(DefinitionError, match="would run refund"):
        await catalogue.put_blueprint({"name": "clerk", "prompt": "You refund politely."})
    assert cast(Blueprint, rows.blueprint("clerk")).prompt == "You refund."
    assert (await catalogue.put_blueprint({"name": "clerk", "status": "disabled"})).status == "disabled"
    with pytest.raises(DefinitionError, match="would run refund"):
        await catalogue.put_blueprint({"name": "clerk", "status": "active"})
    made = await catalogue.put_blueprint({"name": "clerk", "status": "active", "tags": ["default", "hitl"]})
    assert (made.unattended, made.unattended_tools, made.warnings) == (False, (), ())


async def test_a_model_that_its_provider_never_had_keeps_threads_of_it_but_no_new_definition(
    catalogue: Catalogue, rows: Rows
) -> None:
    rows.keep('{"name": "typist", "prompt": "You type.", "tags": [], "model": "demo:defualt"}')
    catalogue.check(catalogue.active("typist"))
    with pytest.raises(DefinitionError, match="there is no model 'demo:defualt'; that provider has default, instant"):
        await catalogue.put_blueprint({"name": "typist", "description": "Types."})
