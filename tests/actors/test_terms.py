"""The terms of agencies as a host knows them: read once, and again when they have changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actors import Settings
from actors.address import Address, Files
from actors.agency.store import AgencyStore
from actors.host.terms import TermsCache
from agency.api.tenancy import AgencyInfo, Budget
from agency.models.providers.entry import Provider
from agency.store.sqlite import LOCAL

AT = "2025-01-01T00:00:00.000Z"
COMMON, MINE = (Provider(api="openai", base_url=f"http://localhost/{name}") for name in ("common", "mine"))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(system="shop:system", data_dir=tmp_path, providers={"common": COMMON})


@pytest.fixture
def store(settings: Settings) -> Iterator[AgencyStore]:
    info = AgencyInfo(id="bakery", name="Bakery", created_at=AT)
    opened = AgencyStore.open(Files(settings.data_dir).of(Address("bakery")), LOCAL, info)
    yield opened
    opened.close()


def test_they_are_the_same_objects_until_they_change(settings: Settings, store: AgencyStore) -> None:
    terms = TermsCache(settings)
    first = terms.of("bakery")
    assert (first.providers, first.budgeted) == ({"common": COMMON}, False)
    store.put_provider("mine", MINE, AT)
    assert terms.of("bakery") is first, "nobody has said so yet"
    terms.changed("bakery")
    second = terms.of("bakery")
    assert second.providers == {"common": COMMON, "mine": MINE}
    store.set_layer(Budget(tokens=1), "owner")
    terms.changed()
    third = terms.of("bakery")
    assert third.budgeted and third.providers is second.providers
    store.put_provider("common", MINE, AT)
    terms.changed("butchery")
    assert terms.of("bakery") is third, "it was another's"
    terms.keep([])
    assert terms.of("bakery").providers == {"common": MINE, "mine": MINE}


def test_what_cannot_be_read_now_is_not_taken_for_an_answer(settings: Settings, store: AgencyStore) -> None:
    store.set_layer(Budget(tokens=1), "owner")
    terms = TermsCache(settings)
    assert terms.of("bakery").budgeted
    path = Files(settings.data_dir).of(Address("bakery"))
    store.close()
    whole = path.read_bytes()
    path.write_bytes(b"not a database, for a moment")
    terms.changed("bakery")
    assert terms.of("bakery").budgeted, "what was known counts on"
    assert not terms.of("butchery").budgeted
    path.write_bytes(whole)
    assert terms.of("bakery").budgeted


def test_an_agency_that_is_not_there_has_what_all_have(settings: Settings) -> None:
    found = TermsCache(settings).of("nobody")
    assert (found.providers, found.budgeted) == ({"common": COMMON}, False)
