"""Whether hosts answer, without any: which ones count as silent or lost, and what a watchdog finds in an event loop."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.address import Address, Files
from actors.directory.disk import Disk, write_problem
from actors.directory.placement import HostSlot, Placement
from actors.directory.pulse import LoopTime, Pulse
from actors.host.watchdog import BlockedLoop, Watchdog
from agency.metadata import ThreadMetadata
from agency.thread.doing import Doing
from tests.support.waiting import eventually, turns_of_the_loop

THREAD = ThreadMetadata(id="thr_1", agent_type="clerk", created_at="2026-01-01T00:00:00Z", agency_id="agc_1")


class Clock(LoopTime):
    """Goes when it is told to."""

    def __init__(self) -> None:
        super().__init__(1.0)


class Pinged:
    def __init__(self) -> None:
        self.pings = 0
        self.answering = asyncio.Event()
        self.answering.set()

    async def ping(self) -> None:
        self.pings += 1
        await self.answering.wait()


def test_time_counts_only_while_the_loop_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 101.0, 1_101.0, 1_102.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    clock = LoopTime(1.0)
    for expected in (1.0, 3.0, 4.0):
        clock.tick()
        assert clock.now == expected


async def test_a_host_is_pinged_twice_in_its_time_and_is_silent_and_then_lost_if_it_does_not_answer() -> None:
    clock, host = Clock(), Pinged()
    pulse = Pulse(clock, host.ping)
    clock.now += 29
    assert pulse.look() == "answers" and host.pings == 0, "it may take its time to start"
    pulse.opened(silent_after=4.0, lost_after=10.0)
    for _ in range(8):
        clock.now += 1
        assert pulse.look() == "answers"
        await turns_of_the_loop()
    assert host.pings == 4
    host.answering.clear()
    found = []
    for _ in range(12):
        clock.now += 1
        found.append(pulse.look())
        await turns_of_the_loop()
    assert found == ["answers"] * 3 + ["silent"] * 6 + ["lost"] * 3
    assert host.pings == 5, "one that is not answered is not repeated"
    host.answering.set()
    await turns_of_the_loop()
    pulse.look()
    await turns_of_the_loop()
    assert pulse.look() == "answers" and not pulse.is_silent


async def test_what_a_host_tells_by_itself_saves_a_ping() -> None:
    clock, host = Clock(), Pinged()
    pulse = Pulse(clock, host.ping)
    pulse.opened(silent_after=4.0, lost_after=10.0)
    for _ in range(10):
        clock.now += 1
        pulse.told()
        assert pulse.look() == "answers"
    assert host.pings == 0


async def test_a_host_that_is_held_up_is_silent_at_once_until_it_answers_a_later_ping() -> None:
    clock, host = Clock(), Pinged()
    pulse = Pulse(clock, host.ping)
    pulse.opened(silent_after=4.0, lost_after=10.0)
    clock.now += 2
    pulse.look()
    pulse.blocked(BlockedLoop("a tool"))
    await turns_of_the_loop()  # the ping before that is answered
    pulse.told()
    assert pulse.is_silent and pulse.blocked_by is not None
    assert pulse.look() == "silent"
    await turns_of_the_loop()
    assert pulse.look() == "answers" and pulse.blocked_by is None


def test_a_silent_host_gets_no_thread_and_others_take_its_place_up_to_half_as_many() -> None:
    placement = Placement(warm=1)
    placement.budgets = {"n1": 4}
    hosts = [HostSlot(f"h{i}", "n1", ready=True) for i in range(4)]
    for host in hosts:
        placement.add(host)
        placement.enter(host, Address("bakery", host.name), alone=False)
    assert (placement.to_start(), placement.choose(alone=False)) == ([], hosts[0])
    hosts[0].silent = True
    assert placement.choose(alone=False) is hosts[1], "it shares one that answers"
    assert (placement.to_start(), placement.node_below_budget()) == (["n1"], "n1")
    for host in hosts:
        host.silent = True
    more = [HostSlot(f"m{i}", "n1", ready=True, silent=True) for i in range(2)]
    for host in more:
        placement.add(host)
    assert (placement.to_start(), placement.node_below_budget(), placement.choose(alone=False)) == ([], None, None)
    assert placement.to_stop(before=1.0) == []
    more[0].silent = False
    assert placement.choose(alone=False) is more[0]


class Kennel:
    """An event loop in another OS thread, with a watchdog."""

    def __init__(self, blocked_after: float) -> None:
        self.reports: list[BlockedLoop] = []
        self.loop = asyncio.new_event_loop()
        watchdog = Watchdog(blocked_after, lambda: True, self.reports.append)
        self.loop.call_soon(watchdog.begin)
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()


@pytest.fixture
def kennel() -> Iterator[Kennel]:
    made = Kennel(0.2)
    yield made
    made.loop.call_soon_threadsafe(made.loop.stop)
    made.thread.join(20)
    made.loop.close()


@pytest.mark.parametrize("kind", ["tool", "hook", "model"])
async def test_the_watchdog_names_what_holds_up_the_loop_in_a_task_of_its_own_as_well(
    kennel: Kennel, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    let_go = threading.Event()

    async def hold_up() -> None:
        let_go.wait(20)

    async def work() -> Doing:
        with Doing(THREAD, "thr_1.1", kind, f"{kind} slow") as doing:  # type: ignore[arg-type]  # it is one of them
            await asyncio.gather(hold_up())
        return doing

    working = asyncio.run_coroutine_threadsafe(work(), kennel.loop)
    report = (await eventually(lambda: kennel.reports))[0]
    assert report == BlockedLoop(
        f"{kind} slow of thread thr_1 holds up the event loop of its host",
        Address("agc_1", "thr_1"),
        "thr_1.1",
        f"{kind}_blocks_loop",
    )
    let_go.set()
    await asyncio.wrap_future(working)
    (line,) = (record for record in caplog.records if "so far" in record.getMessage())
    stack = str(getattr(line, "exception", ""))
    assert "in hold_up" in stack and "asyncio" not in stack.splitlines()[0]


async def test_the_watchdog_names_nothing_that_awaits(kennel: Kennel) -> None:
    async def work() -> None:
        with Doing(THREAD, "thr_1.1", "tool", "tool patient"):
            await asyncio.sleep(1.0)

    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), kennel.loop))
    assert kennel.reports == []


# The disk.


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which can be filled and made read-only."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("only root may mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_and_a_read_only_disk_are_told_in_words_without_paths(small_disk: Path) -> None:
    assert write_problem(small_disk / "agencies") == ""
    filler = small_disk / "filler"
    filler.write_bytes(bytes(13 * 1024 * 1024))
    assert write_problem(small_disk / "agencies") == "the data folder cannot be written: no space is left"
    filler.unlink()
    assert write_problem(small_disk / "agencies") == ""
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert write_problem(small_disk / "agencies") == "the data folder cannot be written: it is read-only"
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert [path.name for path in (small_disk / "agencies").iterdir()] == []


def test_a_data_folder_that_is_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "agencies").touch()
    assert write_problem(tmp_path / "agencies").startswith("the data folder cannot be written: ")


async def test_the_disk_is_asked_once_for_many_and_one_that_hangs_is_told_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go, asked = threading.Event(), []

    def hang(folder: Path) -> str:
        asked.append(folder)
        let_go.wait(30)
        return ""

    monkeypatch.setattr("actors.directory.disk.write_problem", hang)
    disk = Disk(Files(tmp_path))
    for _ in range(2):
        told = await asyncio.gather(*(disk.problem() for _ in range(5)))
        assert set(told) == {"the data folder cannot be written: the disk does not answer"}
    assert len(asked) == 1
    let_go.set()

    async def well() -> bool:
        return await disk.problem() == ""

    await eventually(well)
    assert len(asked) == 1
