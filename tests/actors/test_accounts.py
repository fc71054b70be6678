"""What an agency's threads have used: added up once, whatever is told twice, late or after a deletion."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from actors.address import Address
from actors.agency.accounts import Accounts
from actors.agency.creation import Creation
from actors.agency.journal import Journal
from actors.agency.peek import PeekedTerms, is_unfinished, peek_terms
from actors.agency.store import STEPS, AgencyStore
from actors.updates import ThreadUpdate
from agency.api.tenancy import AgencyInfo, Budget
from agency.approvals.rules import NO_POLICY
from agency.define.blueprint import Blueprint
from agency.messages import Usage
from agency.metadata import ParentInfo, ThreadMetadata
from agency.models.providers.entry import Provider
from agency.spending import Spent
from agency.store.sqlite import LOCAL
from agency.turn.state import NO_CEILING

BORN = "2025-01-01T00:00:00.000Z"
CLERK = Blueprint(name="clerk", description="-", prompt="-")
INFO = AgencyInfo(id="bakery", name="Bakery", created_at=BORN)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AgencyStore]:
    opened = AgencyStore.open(tmp_path / "bakery" / "agency.db", LOCAL, INFO)
    yield opened
    opened.close()


def register(store: AgencyStore, thread: str, parent: str | None = None) -> None:
    above = None if parent is None else ParentInfo(thread_id=parent, token="t")
    metadata = ThreadMetadata(id=thread, agent_type="clerk", created_at=BORN, agency_id="bakery", parent=above)
    store.add_thread(Creation(metadata=metadata, blueprint=CLERK))


def spent(turns: int, cost: float | None = 0.0) -> Spent:
    """A thread's total after so many turns of ten tokens and a second each."""
    return Spent(usage=Usage(input=6 * turns, output=4 * turns), cost_usd=cost, turns=turns, active_ms=1_000 * turns)


def news(
    thread: str, seq: int, used: Spent, children: Spent | None = None, *, instead_of: int | None = None
) -> ThreadUpdate:
    address, below = Address("bakery", thread), children or Spent()
    return ThreadUpdate(address, BORN, seq, "running", None, 1_000 * seq, instead_of, used, below)


@hypothesis_settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(told=st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 30), st.booleans()), max_size=40))
def test_the_total_is_that_of_the_latest_each_thread_has_told_in_whatever_order_it_came(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[str, int, bool]]
) -> None:
    store = AgencyStore.open(tmp_path_factory.mktemp("told") / "bakery" / "agency.db", LOCAL, INFO)
    try:
        journal, accounts, latest = Journal(store), Accounts(store), dict.fromkeys("abc", 0)
        for thread in latest:
            register(store, thread, parent=None if thread == "a" else "a")
        for thread, turns, asked in told:
            used = spent(turns, round(0.1 * turns, 10))
            if asked:
                assert accounts.allow(thread, used) is None
            else:
                journal.take([news(thread, turns, used)])
            latest[thread] = max(latest[thread], turns)
        found = accounts.usage()
        assert (found.turns, found.active_ms) == (sum(latest.values()), 1_000 * sum(latest.values()))
        assert found.tokens_used.total == 10 * found.turns
        assert found.cost_usd == round(0.1 * found.turns, 10)
        assert found.children.turns == latest["b"] + latest["c"]
        assert found.children.cost_usd == round(0.1 * found.children.turns, 10)
    finally:
        store.close()


def test_what_a_deleted_thread_has_used_stays_used(store: AgencyStore) -> None:
    accounts = Accounts(store)
    for thread in ("a", "b"):
        register(store, thread)
    Journal(store).take([news("a", 3, spent(2, 0.5)), news("b", 3, spent(1, 0.25))])
    store.mark_deleting("a")
    accounts.settle("a", spent(3, 0.75))
    accounts.settle("a", Spent())
    store.forget_thread("a")
    found = accounts.usage()
    assert (found.turns, found.cost_usd, found.threads) == (4, 1.0, 1)


def test_a_cost_that_is_unknown_once_makes_the_sum_unknown_for_ever(store: AgencyStore) -> None:
    accounts = Accounts(store)
    for thread in ("a", "b"):
        register(store, thread)
    Journal(store).take([news("a", 1, spent(1, 0.5)), news("b", 1, spent(1, 0.5))])
    assert accounts.usage().cost_usd == 1.0
    Journal(store).take([news("a", 2, spent(2, None)), news("b", 2, spent(2, 0.75))])
    assert accounts.usage().cost_usd is None
    store.forget_thread("a")
    assert (accounts.usage().cost_usd, accounts.usage().turns) == (None, 4)


def test_what_a_thread_lost_with_its_file_was_used_all_the_same(store: AgencyStore) -> None:
    accounts, journal = Accounts(store), Journal(store)
    register(store, "a")
    journal.take([news("a", 9, spent(9, 0.9))])
    journal.take([news("a", 4, spent(4, 0.4), instead_of=9)])
    assert (accounts.usage().turns, accounts.usage().cost_usd) == (9, 0.9)
    journal.take([news("a", 5, spent(6, 0.6))])
    assert (accounts.usage().turns, accounts.usage().cost_usd) == (11, 1.1)


def test_a_thread_is_listed_with_what_it_and_its_children_have_used(store: AgencyStore) -> None:
    register(store, "a")
    Journal(store).take([news("a", 3, spent(2, 0.5), spent(1, None))])
    summary = store.summary("a")
    assert summary is not None
    assert (summary.tokens_used.total, summary.cost_usd) == (30, None)
    assert (summary.children.tokens_used.total, summary.children.cost_usd) == (10, None)


@pytest.mark.parametrize(
    ("budget", "used", "code"),
    [
        (Budget(), spent(100, None), None),
        (Budget(turns=5), spent(4), None),
        (Budget(turns=5), spent(6), "ERR_AGENCY_TURNS"),
        (Budget(time_ms=5_000), spent(5), "ERR_AGENCY_TIME"),
        (Budget(tokens=50), spent(4), None),
        (Budget(tokens=50), spent(5), "ERR_AGENCY_TOKENS"),
        (Budget(cost_usd=0.5), spent(5, 0.49), None),
        (Budget(cost_usd=0.5), spent(5, 0.5), "ERR_AGENCY_COST"),
        (Budget(cost_usd=0.5), spent(5, None), "ERR_AGENCY_COST_UNKNOWN"),
        (Budget(tokens=0), Spent(), "ERR_AGENCY_TOKENS"),
    ],
)
def test_a_budget_that_is_used_up_is_told_by_its_code(
    store: AgencyStore, budget: Budget, used: Spent, code: str | None
) -> None:
    accounts = Accounts(store)
    register(store, "a")
    store.set_layer(budget, "owner")
    assert accounts.allow("a", used) == code
    assert (accounts.exhausted, accounts.usage().exhausted, store.info().budget) == (code, code, budget)


def test_whoever_was_refused_is_known_until_it_was_allowed_to_go_on(store: AgencyStore) -> None:
    accounts = Accounts(store)
    path = Path(store.rows("PRAGMA database_list")[0][2])
    register(store, "a")
    store.thread_made("a")
    store.set_layer(Budget(turns=1), "owner")
    assert not is_unfinished(path)
    assert accounts.allow("a", spent(1)) is None
    assert accounts.allow("a", spent(2)) == "ERR_AGENCY_TURNS"
    assert accounts.usage().turns == 1, "the second was only begun"
    assert accounts.refused() == [], "it has not paused yet"
    store.write(("UPDATE threads SET reason = 'exhausted' WHERE id = 'a'", ()))
    assert (accounts.refused(), is_unfinished(path)) == (["a"], True)
    store.set_layer(Budget(turns=2), "owner")
    assert accounts.allow("a", spent(2)) is None
    assert (accounts.refused(), is_unfinished(path), accounts.usage().turns) == ([], False, 2)


def test_a_file_of_an_earlier_version_has_no_terms_yet_and_gets_its_accounts_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "bakery" / "agency.db"
    path.parent.mkdir()
    db = sqlite3.connect(path)
    for step in STEPS[:2]:
        db.executescript(step)
    db.executemany("INSERT INTO meta VALUES (?, ?)", [("id", "bakery"), ("name", "Bakery"), ("created_at", BORN)])
    metadata = ThreadMetadata(id="a", agent_type="clerk", created_at=BORN, agency_id="bakery").model_dump_json()
    db.execute("INSERT INTO threads (id, state, metadata) VALUES ('a', 'new', ?)", (metadata,))
    db.execute("PRAGMA user_version = 2")
    db.commit()
    db.close()
    assert (peek_terms(path), is_unfinished(path)) == (PeekedTerms({}, Budget(), NO_POLICY, NO_CEILING, []), True)
    store = AgencyStore.open(path, LOCAL)
    Journal(store).take([news("a", 1, spent(1, 0.5))])
    assert Accounts(store).usage().cost_usd == 0.5
    mine = Provider(api="openai", base_url="http://localhost/v1")
    store.put_provider("mine", mine, BORN)
    assert peek_terms(path) == PeekedTerms({"mine": (mine, "owner")}, Budget(), NO_POLICY, NO_CEILING, [])
    store.close()
