"""The agents that threads can start: read once for a host and an agency, seen as they are by each thread that wakes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.address import Address, Files
from actors.agency.peek import peek_blueprints
from actors.agency.store import AgencyStore
from actors.host import agents
from actors.host.agents import AgentsCache
from agency import AgentSystem
from agency.api.tenancy import AgencyInfo
from agency.define.blueprint import Blueprint
from agency.store.sqlite import LOCAL

AT = "2025-01-01T00:00:00.000Z"


def opened(path: Path, agency: str = "bakery", at: str = AT) -> AgencyStore:
    info = AgencyInfo(id=agency, name="Bakery", created_at=at)
    return AgencyStore.open(Files(path).of(Address(agency)), LOCAL, info)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AgencyStore]:
    store = opened(tmp_path)
    yield store
    store.close()


@pytest.fixture
def cache(tmp_path: Path) -> AgentsCache:
    return AgentsCache(tmp_path, AgentSystem("demo:default").add_agent(name="clerk", prompt="You sell."))


def blueprint(name: str, prompt: str = "You bake.", **more: object) -> Blueprint:
    return Blueprint.model_validate({"name": name, "prompt": prompt, **more})


def test_all_threads_have_the_same_objects_and_each_change_is_seen(store: AgencyStore, cache: AgentsCache) -> None:
    assert cache.of("bakery").keys() == {"clerk"}
    for name in ("baker", "miller"):
        store.put_blueprint(blueprint(name), AT)
    first = cache.of("bakery")
    assert first.keys() == {"clerk", "baker", "miller"}
    assert cache.of("bakery") is first
    store.put_blueprint(blueprint("baker", "You bake well."), AT)  # in the same moment as the one before
    second = cache.of("bakery")
    assert (second["baker"].prompt, first["baker"].prompt) == ("You bake well.", "You bake.")
    assert second["miller"] is first["miller"], "what is as it was takes no more memory"
    store.put_blueprint(blueprint("clerk", status="disabled"), AT)
    store.drop_blueprint("miller")
    assert cache.of("bakery").keys() == {"baker"}


def test_a_listing_is_read_once_however_many_threads_wake(
    store: AgencyStore, cache: AgentsCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_blueprint(blueprint("baker"), AT)
    read: list[Path] = []

    def counted(path: Path) -> list[tuple[str, str]]:
        read.append(path)
        return peek_blueprints(path)

    monkeypatch.setattr(agents, "peek_blueprints", counted)
    for _ in range(100):
        cache.of("bakery")
    assert len(read) == 1
    cache.keep([])
    cache.of("bakery")
    assert len(read) == 2


def test_an_agency_that_is_made_anew_has_its_own(tmp_path: Path, store: AgencyStore, cache: AgentsCache) -> None:
    store.put_blueprint(blueprint("baker"), AT)
    assert "baker" in cache.of("bakery")
    store.close()
    for each in Files(tmp_path).of(Address("bakery")).parent.glob("agency.db*"):
        each.unlink()
    assert "baker" in cache.of("bakery"), "what cannot be read counts on"
    opened(tmp_path, at="2025-01-02T00:00:00.000Z").close()
    assert "baker" not in cache.of("bakery")
