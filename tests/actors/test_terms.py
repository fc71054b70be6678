"""The terms of agencies as a host knows them: read once, and again when they have changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from actors import Settings
from actors.address import Address, Files
from actors.agency.store import STEPS, AgencyStore
from actors.host.terms import TermsCache
from agency.api.tenancy import AgencyInfo, Budget, Layers
from agency.approvals.rules import NO_POLICY, Policy, Rule
from agency.errors import Damaged, StoreError
from agency.key_rules import KeyRule
from agency.models.providers.entry import GuardedProvider, Provider
from agency.store import sqlite
from agency.store.sqlite import LOCAL
from agency.turn.state import NO_CEILING, RunCeiling
from tests.support.damage import DAMAGES

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


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
def test_what_cannot_be_read_is_not_taken_for_terms_that_set_nothing(
    settings: Settings, store: AgencyStore, damage: Callable[[Path], None]
) -> None:
    """A host that has not read them before must not run anything under terms that are milder."""
    store.set_layer(Policy(rules=(Rule(risk="high"),)), "owner")
    store.put_provider("mine", MINE, AT)
    store.close()
    path = Files(settings.data_dir).of(Address("bakery"))
    (path.parent / "threads" / "baker.db").touch()
    damage(path)
    terms = TermsCache(settings)
    for _ in range(2):
        with pytest.raises(Damaged):
            terms.of("bakery")


def test_terms_without_a_meaning_are_damaged(settings: Settings, store: AgencyStore) -> None:
    store.write(("REPLACE INTO meta VALUES (?, ?)", ("policy", '{"rules": 7}')))
    with pytest.raises(Damaged, match=r"agency\.db"):
        TermsCache(settings).of("bakery")


def test_a_file_that_another_process_locks_is_asked_again(
    settings: Settings, store: AgencyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.set_layer(Budget(tokens=1), "owner")
    store.close()
    path = Files(settings.data_dir).of(Address("bakery"))
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    terms = TermsCache(settings)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError) as raised:
            terms.of("bakery")
        assert not isinstance(raised.value, Damaged)
        other.execute("ROLLBACK")
    assert terms.of("bakery").budgeted


@pytest.mark.parametrize("version", range(1, len(STEPS) + 1))
def test_files_of_every_release_have_terms(settings: Settings, version: int) -> None:
    path = Files(settings.data_dir).of(Address("bakery"))
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as db:
        for step in STEPS[:version]:
            db.executescript(step)
        db.execute('INSERT INTO meta VALUES (\'policy\', \'{"rules": [{"risk": "high"}]}\')')
        db.execute(f"PRAGMA user_version = {version}")
        db.commit()
    assert len(TermsCache(settings).of("bakery").policy.rules) == 1


def test_an_agency_that_is_just_being_made_has_what_all_have(settings: Settings) -> None:
    path = Files(settings.data_dir).of(Address("bakery"))
    path.parent.mkdir(parents=True)
    path.touch()
    found = TermsCache(settings).of("bakery")
    assert (found.policy, found.ceiling, found.budgeted) == (NO_POLICY, NO_CEILING, False)


def test_an_agency_that_is_not_there_has_what_all_have(settings: Settings) -> None:
    found = TermsCache(settings).of("nobody")
    assert (found.providers, found.budgeted) == ({"common": COMMON}, False)


def test_entries_that_the_owner_has_not_set_are_guarded(tmp_path: Path) -> None:
    keys = {"AGENCY_KEY_X": KeyRule(agencies=("*",))}
    settings = Settings(system="shop:system", data_dir=tmp_path, keys=keys, private_hosts=("localhost:9",))
    info = AgencyInfo(id="bakery", name="Bakery", created_at=AT)
    store = AgencyStore.open(Files(tmp_path).of(Address("bakery")), LOCAL, info)
    store.put_provider("owners", MINE, AT)
    store.put_provider("admins", MINE, AT, "agency")
    store.close()
    found = TermsCache(settings).of("bakery").providers
    assert found["owners"] == MINE
    assert found["admins"] == GuardedProvider(**dict(MINE), agency="bakery", outgoing=settings.outgoing)


def test_both_layers_are_in_effect(settings: Settings, store: AgencyStore) -> None:
    store.set_layer(Budget(tokens=5), "agency")
    store.set_layer(RunCeiling(turns=9, tokens=3), "owner")
    store.set_layer(RunCeiling(turns=4), "agency")
    store.set_layer(Policy(rules=(Rule(tool="charge", risk="high"),)), "owner")
    store.set_layer(Policy(rules=(Rule(tool="note", risk="high"),)), "agency")
    found = TermsCache(settings).of("bakery")
    assert (found.budgeted, found.ceiling) == (True, RunCeiling(turns=4, tokens=3))
    assert [rule.tool for rule in found.policy.rules] == ["charge", "note"]


def test_a_file_that_this_release_has_not_opened_yet_has_its_terms(settings: Settings, store: AgencyStore) -> None:
    """A host may read it before its agency is awake, and must not take it for one that has set nothing."""
    path = Files(settings.data_dir).of(Address("bakery"))
    store.put_provider("mine", MINE, AT)
    store.set_layer(Policy(rules=(Rule(risk="high"),)), "owner")
    store.set_layer(Budget(tokens=1), "owner")
    store.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("ALTER TABLE providers DROP COLUMN set_by")
        db.execute("ALTER TABLE blueprints DROP COLUMN vouched")
        db.execute(f"PRAGMA user_version = {len(STEPS) - 1}")
    terms = TermsCache(settings).of("bakery")
    assert (terms.budgeted, len(terms.policy.rules)) == (True, 1)
    assert isinstance(terms.providers["mine"], GuardedProvider)
    again = AgencyStore.open(path, LOCAL)
    assert [(each.name, each.set_by) for each in again.providers()] == [("mine", "agency")]
    assert again.layers(Budget) == Layers(owner=Budget(tokens=1), agency=Budget())
    again.close()
