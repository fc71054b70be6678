"""What an agency's admin cannot store: entries that hide what they use, and names that people cannot read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.address import Address, Files
from actors.agency.store import AgencyStore
from agency.approvals.rules import Policy, Rule
from agency.define.blueprint import Blueprint
from agency.define.options import as_options
from agency.errors import InvalidInput
from agency.models.providers.entry import Price, Provider
from agency.store.sqlite import LOCAL
from tests.support.lone_agency import LoneAgency

AT = "2027-01-01T00:00:00.000Z"
UNSEEN = ["a\0b", "a\u202eb", "a\u200bb"]


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoneAgency]:
    opened = LoneAgency(tmp_path, monkeypatch)
    yield opened
    opened.agency.close()


def entry(**more: Any) -> Provider:
    return Provider.model_validate({"api": "openai", "base_url": "https://models.example.com/v1", **more})


@pytest.mark.parametrize("said", [None, {"include_usage": False}])
async def test_only_the_owner_says_whether_usage_is_asked_for(office: LoneAgency, said: Any) -> None:
    silent = entry(body={"stream_options": said})
    with pytest.raises(InvalidInput, match="stream_options"):
        await office.call("put_provider", "mine", silent, by="agency")
    assert (await office.call("put_provider", "mine", silent, by="owner")).entry == silent


@pytest.mark.parametrize("name", UNSEEN)
async def test_no_name_of_a_model_tool_or_section_has_what_is_not_seen(office: LoneAgency, name: str) -> None:
    baker = {"name": "baker", "prompt": "p", "model": "script:any"}
    schedule = {"name": "s", "agentType": "clerk", "message": "m", "kind": "interval", "everyMs": 3_600_000}
    refused: list[tuple[str, tuple[Any, ...]]] = [
        ("put_blueprint", ({**baker, "model": f"script:{name}"},)),
        ("put_blueprint", ({**baker, "model": ["script:any", {"model": f"script:{name}"}]},)),
        ("put_blueprint", ({**baker, "config": {name: {}}},)),
        ("set_policy", (Policy(rules=(Rule(tool=name, risk="high"),)),)),
        ("put_provider", ("mine", entry(prices={name: Price(input=1, output=1)}))),
        ("create_schedule", ("s", {**schedule, "model": f"script:{name}"})),
    ]
    for method, given in refused:
        with pytest.raises(InvalidInput, match=r"U\+"):
            await office.call(method, *given)
    with pytest.raises(InvalidInput, match=r"U\+"):
        as_options({"model": f"script:{name}"})


async def test_what_an_earlier_release_has_stored_is_read_and_changed(office: LoneAgency, tmp_path: Path) -> None:
    old = Blueprint(name="baker", prompt="p", model="script:a\u200bb", config={"a\u200bb": {}}, unattended=False)
    store = AgencyStore.open(Files(tmp_path).of(Address("bakery")), LOCAL)
    store.put_blueprint(old, AT, [])
    store.set_layer(Policy(rules=(Rule(tool="a\u200bb", risk="high"),)), "owner")
    store.close()
    office.reopen()
    assert (await office.call("policy")).rules[0].tool == "a\u200bb"
    changed = await office.call("put_blueprint", {"name": "baker", "prompt": "other"})
    assert (changed.prompt, changed.model) == ("other", "script:a\u200bb")
