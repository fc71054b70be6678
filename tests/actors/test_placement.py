"""The rules of the actors, without any: where threads go, what counts against them, when they wake, what is refused."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from ray.exceptions import RayError

from actors.address import Address, Files
from actors.agency.context import checked_name
from actors.alarms import Alarms
from actors.answers import NotHere, Refusal, answer, reason_of, unwrap
from actors.directory.placement import HostSlot, Placement
from actors.directory.poison import CrashCounts
from actors.settings import Settings, settings
from agency import AgencyError, DefinitionError, InvalidInput, NotFound, errors
from agency.clock import now_ms
from agency.define.system import load_system
from agency.errors import TooLarge, revive

HERE = (str(Path(__file__).parents[2]),)
A, B, C = (Address("bakery", name) for name in "abc")


# Placement.


def rooms(placement: Placement, *names: str, node: str = "n1", ready: bool = True) -> list[HostSlot]:
    made = [HostSlot(name, node, ready=ready) for name in names]
    for room in made:
        placement.add(room)
    return made


def test_a_thread_takes_an_empty_host_and_rather_one_that_is_ready() -> None:
    placement = Placement(warm=2)
    placement.budgets = {"n1": 4}
    (starting,) = rooms(placement, "h1", ready=False)
    assert placement.choose(alone=False) is starting
    (ready,) = rooms(placement, "h2")
    assert placement.choose(alone=False) is ready


def test_beyond_the_budget_a_thread_goes_to_the_host_with_the_fewest() -> None:
    placement = Placement(warm=0)
    placement.budgets = {"n1": 2}
    first, second = rooms(placement, "h1", "h2")
    placement.enter(first, A, alone=False)
    assert placement.choose(alone=False) is second
    placement.enter(second, B, alone=False)
    placement.enter(second, C, alone=False)
    assert placement.choose(alone=False) is first


def test_an_empty_host_on_the_quieter_node_is_preferred() -> None:
    placement = Placement(warm=1)
    placement.budgets = {"n1": 2, "n2": 2}
    busy, _ = rooms(placement, "h1", "h2")
    (quiet,) = rooms(placement, "h3", node="n2")
    placement.enter(busy, A, alone=False)
    assert placement.choose(alone=False) is quiet


def test_a_thread_that_must_be_alone_gets_a_new_host_when_none_is_empty() -> None:
    placement = Placement(warm=0)
    placement.budgets = {"n1": 1}
    (only,) = rooms(placement, "h1")
    placement.enter(only, A, alone=False)
    assert placement.choose(alone=True) is None
    assert placement.node_below_budget() is None


def test_without_a_node_there_is_no_host() -> None:
    placement = Placement(warm=1)
    assert placement.choose(alone=False) is None
    assert (placement.node_below_budget(), placement.least_busy_node(), placement.to_start()) == (None, None, [])


def test_of_the_empty_hosts_those_beyond_the_warm_ones_are_stopped_the_longest_empty_first() -> None:
    placement = Placement(warm=1)
    placement.budgets = {"n1": 4}
    old, young, busy = rooms(placement, "h1", "h2", "h3")
    old.empty_since, young.empty_since = 10.0, 20.0
    placement.enter(busy, A, alone=False)
    assert placement.to_stop(before=15.0) == [old]
    assert placement.to_stop(before=5.0) == []


def test_on_a_closed_node_no_host_is_started_and_those_that_are_ready_go_on() -> None:
    placement = Placement(warm=2)
    placement.budgets = {"n1": 4, "n2": 4}
    placement.closed = {"n1"}
    ready = HostSlot("h1", "n1", ready=True)
    placement.add(ready)
    assert placement.to_start() == ["n2", "n2"]
    assert placement.node_below_budget() == placement.least_busy_node() == "n2"
    assert placement.choose(alone=False) is ready
    assert placement.to_stop(before=1.0) == []


MISSING = "ModuleNotFoundError: No module named 'x'"
DIED = "The actor died unexpectedly before finishing this task."


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (f"ray::Host died\nTraceback\n  File 'x'\n{MISSING}\n\n", MISSING),
        (f"{DIED}\n\tclass_name: Host", DIED),
        ("", "RayError"),
    ],
)
def test_what_ray_says_at_length_is_told_in_a_line(said: str, reason: str) -> None:
    assert reason_of(RayError(said)) == reason


def test_hosts_on_a_node_that_is_no_longer_used_are_all_stopped() -> None:
    placement = Placement(warm=1)
    placement.budgets = {"n1": 4}
    rooms(placement, "h1")
    (left,) = rooms(placement, "h2", node="gone")
    assert placement.to_stop(before=1.0) == [left]


class Hotel(RuleBasedStateMachine):
    """Threads come and go in any order, and hosts with them, as the fleet has it."""

    @initialize(warm=st.integers(0, 3), budgets=st.lists(st.integers(1, 4), min_size=1, max_size=3))
    def open(self, warm: int, budgets: list[int]) -> None:
        self.warm = warm
        self.placement = Placement(warm)
        self.placement.budgets = {f"n{i}": budget for i, budget in enumerate(budgets)}
        self.rooms: dict[str, HostSlot] = {}
        self.homes: dict[Address, HostSlot] = {}
        self.alone: set[Address] = set()
        self.count = 0

    def start(self, node: str) -> HostSlot:
        self.count += 1
        room = self.rooms[f"h{self.count}"] = HostSlot(f"h{self.count}", node)
        self.placement.add(room)
        return room

    def stop(self, room: HostSlot) -> None:
        del self.rooms[room.name]
        self.placement.remove(room.name)

    @rule(alone=st.booleans())
    def come(self, alone: bool) -> None:
        self.count += 1
        address = Address("bakery", f"t{self.count}")
        room = self.placement.choose(alone=alone)
        if room is None and not alone and self.placement.node_below_budget() is None:
            assert all(each.silent for each in self.shared()), "it waits only if no host answers"
            return
        if room is None:
            node = self.placement.node_below_budget() or self.placement.least_busy_node()
            assert node is not None
            room = self.start(node)
        else:
            assert not room.silent
            answering = [each for each in self.shared() if not each.silent]
            ready = [each for each in answering if each.ready]
            assert alone or room.ready or not ready, "it waits for a host though one is ready"
            fewest = min(len(each.threads) for each in answering if each.ready == room.ready)
            assert len(room.threads) == fewest, "it shares though a host has fewer"
        self.homes[address] = self.placement.enter(room, address, alone=alone)
        if alone:
            self.alone.add(address)

    @rule(which=st.integers(0, 1_000))
    def go(self, which: int) -> None:
        if self.homes:
            address = sorted(self.homes)[which % len(self.homes)]
            room = self.homes.pop(address)
            self.placement.leave(room, address, float(self.count))
            if room.role == "dedicated":
                self.stop(room)

    @rule(which=st.integers(0, 1_000))
    def get_ready(self, which: int) -> None:
        if self.rooms:
            list(self.rooms.values())[which % len(self.rooms)].ready = True

    @rule(which=st.integers(0, 1_000))
    def fall_silent_or_answer_again(self, which: int) -> None:
        if self.rooms:
            room = list(self.rooms.values())[which % len(self.rooms)]
            room.silent = not room.silent

    @rule()
    def refill(self) -> None:
        for node in self.placement.to_start():
            self.start(node)
        for node, budget in self.placement.budgets.items():
            shared = [room for room in self.shared() if room.node == node]
            empty = sum(not room.threads and not room.silent for room in shared)
            silent = sum(room.silent for room in shared)
            warm = min(1, self.warm) if silent else self.warm
            assert empty >= warm or len(shared) >= budget + min(silent, max(1, budget // 2))
        assert self.placement.to_start() == []

    @rule()
    def clean(self) -> None:
        for room in self.placement.to_stop(before=float(self.count)):
            assert not room.threads
            self.stop(room)
        for node in self.placement.budgets:
            here = [room for room in self.shared() if room.node == node and not room.silent]
            assert sum(room.ready and not room.threads for room in here) <= self.warm

    def shared(self) -> list[HostSlot]:
        return [room for room in self.rooms.values() if room.role == "shared"]

    @invariant()
    def shared_hosts_never_exceed_the_budget_by_more_than_half_for_silent_ones(self) -> None:
        for node, budget in self.placement.budgets.items():
            assert sum(room.node == node for room in self.shared()) <= budget + max(1, budget // 2)

    @invariant()
    def who_must_be_alone_is_alone(self) -> None:
        for address in self.alone & self.homes.keys():
            assert self.homes[address].threads == {address}


Hotel.TestCase.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)
TestThreadsComeAndGoInAnyOrder = Hotel.TestCase


# CrashCounts.


def test_a_thread_that_dies_again_and_again_at_one_place_is_kept_apart_and_then_out() -> None:
    strikes = CrashCounts(most=4)
    strikes.count(A, seq=7)
    assert not strikes.needs_own_host(A)
    strikes.count(A, seq=7)
    assert strikes.needs_own_host(A) and not strikes.is_poison(A)
    strikes.count(A, seq=7, alone=True)
    assert not strikes.is_poison(A)
    strikes.count(A, seq=7, alone=True)
    assert strikes.is_poison(A)
    assert not strikes.needs_own_host(B)


def test_a_thread_that_never_died_alone_is_not_given_up() -> None:
    strikes = CrashCounts(most=3)
    for _ in range(10):
        strikes.count(A, seq=7)
    assert strikes.needs_own_host(A) and not strikes.is_poison(A)


def test_a_thread_that_only_waited_for_a_model_is_hardly_suspected() -> None:
    strikes = CrashCounts(most=3)
    for _ in range(11):
        strikes.count(A, seq=7, waiting=True, alone=True)
    assert strikes.needs_own_host(A) and not strikes.is_poison(A)
    strikes.count(A, seq=7, waiting=True, alone=True)
    assert strikes.is_poison(A)


def test_a_thread_that_has_got_further_begins_anew() -> None:
    strikes = CrashCounts(most=3)
    for seq in (7, 7, 8):
        strikes.count(A, seq)
    assert not strikes.needs_own_host(A) and not strikes.is_poison(A)


def test_what_is_forgiven_is_forgotten() -> None:
    strikes = CrashCounts(most=2)
    strikes.count(A, 7)
    strikes.count(A, 7)
    strikes.forget(A)
    strikes.forget(B)
    assert not strikes.is_poison(A) and not strikes.needs_own_host(A)


# Alarms.


class Bell:
    def __init__(self) -> None:
        self.rung: asyncio.Queue[Address] = asyncio.Queue()
        self.alarms = Alarms(self.rung.put_nowait)

    async def next(self) -> Address:
        async with asyncio.timeout(5):
            return await self.rung.get()


@pytest.fixture
async def bell() -> AsyncIterator[Bell]:
    bell = Bell()
    ringing = asyncio.create_task(bell.alarms.ring())
    yield bell
    ringing.cancel()
    with suppress(asyncio.CancelledError):
        await ringing


async def test_alarms_ring_in_the_order_in_which_they_are_due(bell: Bell) -> None:
    now = now_ms()
    bell.alarms.set(C, now + 120)
    bell.alarms.set(A, now - 1_000)
    bell.alarms.set(B, now + 60)
    assert [await bell.next() for _ in range(3)] == [A, B, C]
    assert bell.alarms.all() == {}


async def test_an_alarm_that_is_set_anew_rings_once_and_then(bell: Bell) -> None:
    now = now_ms()
    bell.alarms.set(A, now + 40)
    bell.alarms.set(A, now + 120)
    bell.alarms.set(B, now + 80)
    assert [await bell.next() for _ in range(2)] == [B, A]
    assert now_ms() >= now + 120
    assert bell.rung.empty()


async def test_an_alarm_can_be_brought_forward(bell: Bell) -> None:
    bell.alarms.set(A, now_ms() + 60_000)
    bell.alarms.set(A, now_ms() + 20)
    assert await bell.next() == A


async def test_a_dropped_alarm_does_not_ring(bell: Bell) -> None:
    now = now_ms()
    bell.alarms.set(A, now + 30)
    bell.alarms.set(B, now + 60)
    bell.alarms.drop(A)
    bell.alarms.drop(C)
    assert bell.alarms.all() == {B: now + 60}
    assert await bell.next() == B
    assert bell.rung.empty()


async def test_an_alarm_that_is_wanted_no_later_does_not_put_off_an_earlier_one(bell: Bell) -> None:
    now = now_ms()
    for due in (80, 40, 60):
        bell.alarms.no_later(A, now + due)
    assert bell.alarms.all() == {A: now + 40}
    assert await bell.next() == A


async def test_an_alarm_that_is_set_again_and_again_takes_no_more_room(bell: Bell) -> None:
    later = now_ms() + 60_000
    bell.alarms.set(B, now_ms() + 30)
    for n in range(5_000):
        bell.alarms.set(A, later + n)
    assert len(bell.alarms._queue) < 2_000
    assert await bell.next() == B
    bell.alarms.set(A, now_ms())
    assert await bell.next() == A


# Addresses and files.

BAD_IDS = ["..", ".", "../bakery", "a/b", "a\\b", "a.b", "/etc", "a b", "a\n", "a\0", "ä", "a" * 65]


@pytest.mark.parametrize("bad", BAD_IDS)
def test_an_id_that_could_leave_the_folder_is_no_id(bad: str) -> None:
    with pytest.raises(InvalidInput, match="the id of an agency has 1 to 64 letters"):
        Address(bad)
    with pytest.raises(InvalidInput, match="the id of a thread has 1 to 64 letters"):
        Address("bakery", bad)


def test_an_agency_has_an_id() -> None:
    with pytest.raises(InvalidInput, match="the id of an agency"):
        Address("")


def test_everything_of_an_agency_is_in_its_folder(tmp_path: Path) -> None:
    files = Files(tmp_path)
    assert files.of(Address("bakery")) == tmp_path / "agencies" / "bakery" / "agency.db"
    assert files.of(A) == tmp_path / "agencies" / "bakery" / "threads" / "a.db"
    assert (str(A), str(Address("bakery"))) == ("bakery/a", "bakery")


def test_what_has_a_file_exists_and_what_is_open_comes_first(tmp_path: Path) -> None:
    files = Files(tmp_path)
    assert (files.agencies(), files.all_threads()) == ([], [])
    for address in (Address("bakery"), A, B):
        files.of(address).parent.mkdir(parents=True, exist_ok=True)
        files.of(address).touch()
    folder = files.of(A).parent
    (folder / "b.db-wal").touch()
    (folder / "not an id.db").touch()
    (tmp_path / "agencies" / "empty").mkdir()
    assert files.agencies() == ["bakery"]
    assert files.all_threads() == [B, A]
    files.remove(B)
    files.remove(B)
    assert sorted(path.name for path in folder.iterdir()) == ["a.db", "not an id.db"]


@pytest.mark.parametrize("bad", ["", "   ", "x" * 201])
def test_an_agency_has_a_name_of_reasonable_length(bad: str) -> None:
    with pytest.raises(InvalidInput, match="1 to 200 characters"):
        checked_name(bad)
    assert checked_name("  Bakery ") == "Bakery"


# Errors between processes.

OURS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, AgencyError)]


@pytest.mark.parametrize("kind", OURS)
def test_every_error_comes_back_by_its_code(kind: type[AgencyError]) -> None:
    revived = revive(kind.code, "what was wrong")
    assert type(revived) is kind
    assert (revived.code, str(revived)) == (kind.code, "what was wrong")
    assert sum(each.code == kind.code for each in OURS) == 1


def test_a_code_that_nobody_knows_is_an_error_all_the_same() -> None:
    revived = revive("ERR_OF_A_LATER_RELEASE", "new")
    assert (type(revived), str(revived)) == (AgencyError, "new")


async def test_an_answer_is_a_value_or_a_refusal() -> None:
    async def give(what: int | Exception) -> int:
        if isinstance(what, Exception):
            raise what
        return what

    assert unwrap(await answer(give(7))) == 7
    assert unwrap(NotHere()) == NotHere()
    refused = await answer(give(TooLarge("9 is too large")))
    assert refused == Refusal("ERR_TOO_LARGE", "9 is too large")
    with pytest.raises(TooLarge, match="9 is too large"):
        unwrap(refused)
    assert await answer(give(KeyError("oops"))) == Refusal("ERR_INTERNAL", "KeyError: 'oops'")


def test_an_error_of_somebody_elses_does_not_take_the_place_of_ours() -> None:
    class NoSuchOrder(NotFound):
        """As a tool's author may well define it, with an attribute of its own and without a code of its own."""

        def __init__(self, order: int) -> None:
            self.order = order
            super().__init__(f"there is no order {order}")

    revived = type(revive(NotFound.code, "there is no thread"))
    del NoSuchOrder
    gc.collect()  # a class that stays would be found by the other tests
    assert revived is NotFound


# Settings.


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"system": "no_colon"}, "system: String should match pattern"),
        ({"actors_per_node": 0}, "actors_per_node: Input should be greater than or equal to 1"),
        ({"warm_hosts": -1}, "warm_hosts: Input should be greater than or equal to 0"),
        ({"hibernate_after": 0}, "hibernate_after: Input should be greater than 0"),
        ({"message_chars": 0}, "message_chars: Input should be greater than or equal to 1"),
        ({"poison_after": 1}, "poison_after: Input should be greater than or equal to 2"),
        ({"storage": "floppy"}, "storage: Input should be 'local' or 'shared'"),
        ({"synchronous": "OFF"}, "synchronous: Input should be 'NORMAL' or 'FULL'"),
        ({"color": "red"}, "color: Extra inputs are not permitted"),
    ],
)
def test_wrong_settings_are_refused_by_name(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        settings(**{"system": "shop:system", **wrong})
    assert str(refused.value).startswith(f"settings: {said}")


def test_settings_come_from_the_environment_and_keywords_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENCY_SYSTEM", "shop:system")
    monkeypatch.setenv("AGENCY_WARM_HOSTS", "7")
    monkeypatch.setenv("AGENCY_NAMESPACE", "east")
    given = settings(namespace="west")
    assert (given.system, given.warm_hosts, given.namespace) == ("shop:system", 7, "west")


def test_folders_are_absolute_and_modules_are_looked_for_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = settings(system="shop:system", data_dir="data")
    assert given.data_dir == tmp_path / "data"
    assert given.python_path == (str(tmp_path),)
    assert Settings(system="shop:system", python_path=("/code",)).python_path == ("/code",)


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("tests.actors.nowhere:system", "cannot load tests.actors.nowhere:system: No module named"),
        (
            "tests.support.scripted_system:nothing",
            "cannot load tests.support.scripted_system:nothing: module .* has no attribute 'nothing'",
        ),
        (
            "tests.support.scripted_system:say",
            "tests.support.scripted_system:say is not an AgentSystem, but a function",
        ),
    ],
)
def test_a_wrong_reference_to_the_system_says_what_is_wrong_with_it(reference: str, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        load_system(reference, HERE)


def test_a_module_that_cannot_be_imported_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "known_prices", raising=False)
    (tmp_path / "known_prices.py").write_text("import json\n\n\ndef of(item):\n    return {}[item]\n")
    for line, said in (
        ("1 / 0", r"ZeroDivisionError: division by zero \(broken_shop.py, line 2\)"),
        ("import known_prices; known_prices.of('rye')", r"KeyError: 'rye' \(known_prices.py, line 5\)"),
        ("import json; json.loads('{')", r"JSONDecodeError: .* \(broken_shop.py, line 2\)"),
        ("def of(:", r"invalid syntax \(broken_shop.py, line 2\) \(looked"),
        ("import no_such_shop", r"No module named 'no_such_shop' \(broken_shop.py, line 2\)"),
        ("agency.AgentSystem('demo')", r"default_model 'demo' must read .* \(broken_shop.py, line 2\)"),
    ):
        (tmp_path / "broken_shop.py").write_text(f"import agency\n{line}\n")
        with pytest.raises(DefinitionError, match=f"cannot load broken_shop:system: {said}"):
            load_system("broken_shop:system", (str(tmp_path),))


def test_a_system_with_a_wrong_agent_is_refused_when_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    text = "import agency\nsystem = agency.AgentSystem('demo:x').add_agent(name='a', description='-', prompt='-', "
    (tmp_path / "wrong_shop.py").write_text(text + "tags=['nobody'])\n")
    with pytest.raises(DefinitionError, match="agent 'a': no tool or middleware has the tags"):
        load_system("wrong_shop:system", (str(tmp_path),))
