"""What an agency starts by itself keeps a pace, however much its blueprints and schedules ask for: it waits, and
nothing of it is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.agency import pace
from actors.agency.pace import AT_ONCE_SECONDS, Pace
from agency.children.parcels import Spawn
from agency.errors import InvalidInput
from agency.metadata import ParentInfo, RequestContext
from tests.support.lone_agency import HOUR, LoneAgency


class Clock:
    """Time that passes only while something sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.began = 1_000_000.0
        monkeypatch.setattr(pace, "time", self)
        monkeypatch.setattr(pace, "asyncio", self)

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    @property
    def passed(self) -> float:
        return self.now - self.began


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoneAgency]:
    opened = LoneAgency(tmp_path, monkeypatch)
    opened.allow(starts_per_second=1, children_most=30, generations_most=3)
    yield opened
    opened.agency.close()


def order(n: int, depth: int = 1) -> Spawn:
    parent = ParentInfo(thread_id="boss", token=f"token{n}", depth=depth)
    return Spawn(
        to=f"child{n}", agent_type="clerk", message="Bake!", agency_id="bakery", request=RequestContext(), parent=parent
    )


async def test_some_may_start_at_once_and_the_rest_one_by_one(clock: Clock) -> None:
    each = Pace(2.0)
    burst = int(2 * AT_ONCE_SECONDS)
    for _ in range(burst):
        await each.turn()
    assert clock.passed == 0
    for n in range(1, 7):
        await each.turn()
        assert clock.passed == pytest.approx(n / 2)
    clock.now += 3.0
    for _ in range(6):
        await each.turn()
    assert clock.passed == pytest.approx(6.0), "what was not used meanwhile may be used"


async def test_threads_of_schedules_wait_for_their_turn_and_all_start(office: LoneAgency, clock: Clock) -> None:
    for n in range(40):
        await office.schedule(f"s{n}", name=f"s{n}")
    await office.wait(HOUR)
    assert len(office.made) == 40
    assert clock.passed == pytest.approx(40 - AT_ONCE_SECONDS)


async def test_subagents_wait_for_their_turn_and_an_order_that_comes_twice_takes_none(
    office: LoneAgency, clock: Clock
) -> None:
    await office.call("create_thread", "clerk", thread_id="boss")
    for n in range(15):
        await office.call("spawn", order(n))
        await office.call("spawn", order(n))
    assert len(office.made) == 16
    assert clock.passed == pytest.approx(15 - AT_ONCE_SECONDS)


async def test_no_family_is_larger_than_the_installation_lets_it_be(office: LoneAgency, clock: Clock) -> None:
    await office.call("create_thread", "clerk", thread_id="boss")
    await office.call("spawn", order(0, depth=3))
    with pytest.raises(InvalidInput, match="AGENCY_GENERATIONS_MOST"):
        await office.call("spawn", order(1, depth=4))
    for n in range(2, 31):
        await office.call("spawn", order(n))
    with pytest.raises(InvalidInput, match="AGENCY_CHILDREN_MOST"):
        await office.call("spawn", order(31))
    await office.tell("child5", "completed")
    await office.call("spawn", order(31))
    assert len(office.made) == 32
