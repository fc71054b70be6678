"""On shared storage a worker thread ends the commits of an agency: what comes meanwhile shares the next one, and
nothing is told before it is on disk."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.agency.agency_file import AgencyFile
from actors.agency.store import AgencyStore
from agency.api.tenancy import AgencyInfo
from agency.errors import NotFound, StorageFull
from agency.messages import Message
from agency.store.sqlite import Storage
from tests.support.held_disk import HeldDisk
from tests.support.lone_agency import LoneAgency
from tests.support.waiting import eventually, turns_of_the_loop

AT_ONCE = 20


@pytest.fixture
def disk() -> Iterator[HeldDisk]:
    found = HeldDisk()
    with found.in_use():
        yield found


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: HeldDisk) -> Iterator[LoneAgency]:
    opened = LoneAgency(tmp_path, monkeypatch, storage="shared")
    disk.commits = disk.in_main_thread = 0
    yield opened
    disk.let_go()
    opened.agency.close()


def begun(office: LoneAgency, method: str, *args: Any, **kwargs: Any) -> asyncio.Task[Any]:
    return asyncio.create_task(office.call(method, *args, **kwargs))


def new_thread(office: LoneAgency, thread_id: str) -> asyncio.Task[Any]:
    return begun(office, "create_thread", "clerk", [Message(role="user", content="Bake!")], thread_id=thread_id)


async def listed(office: LoneAgency) -> list[str]:
    return [each.id for each in (await office.call("threads")).threads]


async def test_a_thread_is_ordered_once_it_is_on_disk_and_the_loop_goes_on_meanwhile(
    office: LoneAgency, disk: HeldDisk
) -> None:
    disk.hold()
    made = new_thread(office, "a")
    await disk.is_held()
    await turns_of_the_loop()
    assert not made.done()
    assert office.made == {}, "no host hears of a thread that may be lost"
    disk.let_go()
    assert (await made).id == "a"
    assert list(office.made) == ["a"]
    assert disk.in_main_thread == 0, "no commit was made on the event loop"


async def test_what_comes_during_a_commit_goes_into_the_next_one(office: LoneAgency, disk: HeldDisk) -> None:
    disk.hold()
    first = new_thread(office, "first")
    await disk.is_held()
    others = [new_thread(office, f"t{n}") for n in range(AT_ONCE)]
    await turns_of_the_loop()
    assert disk.commits == 1
    disk.let_go()
    await asyncio.gather(first, *others)
    assert sorted(await listed(office)) == sorted(office.made)
    assert len(office.made) == AT_ONCE + 1
    assert disk.commits < AT_ONCE, "many operations shared a commit"


async def test_answers_and_refusals_wait_for_what_they_may_have_read(office: LoneAgency, disk: HeldDisk) -> None:
    await new_thread(office, "a")
    disk.hold()
    renamed = begun(office, "rename", "Patisserie")
    deleted = begun(office, "delete_thread", "a")
    read = begun(office, "info")
    refused = begun(office, "thread", "a")
    await disk.is_held()
    await turns_of_the_loop()
    assert not any(each.done() for each in (renamed, deleted, read, refused))
    disk.let_go()
    assert (await renamed).name == (await read).name == "Patisserie"
    await deleted
    with pytest.raises(NotFound):
        await refused


async def test_a_commit_that_fails_fails_all_that_it_held_and_changes_nothing(
    office: LoneAgency, disk: HeldDisk
) -> None:
    await new_thread(office, "before")
    disk.hold()
    held = [new_thread(office, f"t{n}") for n in range(3)]
    held.append(begun(office, "rename", "Patisserie"))
    await disk.is_held()
    disk.fails = True
    disk.let_go()
    for each in held:
        with pytest.raises(StorageFull):
            await each
    assert list(office.made) == ["before"]
    disk.fails = False
    assert await listed(office) == ["before"]
    assert (await office.call("info")).name == "Bakery"
    await asyncio.gather(*(new_thread(office, f"t{n}") for n in range(3)))
    assert await listed(office) == ["before", "t0", "t1", "t2"], "what failed can be tried again"


async def test_an_operation_whose_writing_is_lost_hears_of_it_at_its_next_step(
    office: LoneAgency, disk: HeldDisk
) -> None:
    blueprint = {"name": "baker", "description": "d", "prompt": "p"}
    waits, goes_on = asyncio.Event(), asyncio.Event()

    async def give_way(agency: str) -> None:
        waits.set()
        await goes_on.wait()

    office.give_way = give_way  # type: ignore[method-assign]
    put = begun(office, "put_blueprint", blueprint)
    disk.fails = True
    await waits.wait()
    lost = begun(office, "rename", "Patisserie")
    with pytest.raises(StorageFull):
        await lost
    disk.fails = False
    goes_on.set()
    with pytest.raises(StorageFull):
        await put


async def test_a_deletion_that_cannot_be_written_down_leaves_the_agency_as_it_was(
    office: LoneAgency, disk: HeldDisk
) -> None:
    disk.fails = True
    with pytest.raises(StorageFull):
        await office.call("delete")
    disk.fails = False
    assert not office.agency.deleting
    await new_thread(office, "a")
    await office.call("delete")
    assert office.agency.deleted


async def test_clients_are_woken_when_events_are_on_disk(office: LoneAgency, disk: HeldDisk) -> None:
    await new_thread(office, "a")
    page = begun(office, "next_journal_page", 0, wait=20.0)
    await eventually(lambda: office.agency.watched)
    disk.hold()
    told = asyncio.create_task(office.tell("a", "running", 3))
    await disk.is_held()
    await turns_of_the_loop()
    assert not (page.done() or told.done())
    disk.let_go()
    await told
    assert (await page).upto == 3


async def test_a_caller_that_gives_up_during_a_commit_changes_nothing_for_others(
    office: LoneAgency, disk: HeldDisk
) -> None:
    disk.hold()
    gone, stays = new_thread(office, "gone"), new_thread(office, "stays")
    await disk.is_held()
    gone.cancel()
    await turns_of_the_loop()
    disk.let_go()
    await stays
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert "stays" in office.made
    await office.agency.finish()
    assert sorted(await listed(office)) == sorted(office.made), "what was written down is made in the end"


async def test_schedules_start_what_is_due_once_it_is_on_disk(office: LoneAgency, disk: HeldDisk) -> None:
    await office.schedule(every_ms=60_000)
    office.now += 60_000
    disk.hold()
    due = asyncio.create_task(office.agency.run_due())
    await disk.is_held()
    await turns_of_the_loop()
    assert office.made == {}
    disk.let_go()
    await due
    assert len(office.made) == 1
    assert [run.status for run in await office.runs()] == ["started"]


async def test_an_error_that_takes_back_the_open_transaction_is_told_to_all_that_wrote_in_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "bakery" / "agency.db"
    info = AgencyInfo(id="bakery", name="Bakery", created_at="2027-01-04T09:00:00.000Z")
    store = AgencyStore.open(path, Storage(shared=True), info)

    async def renamed() -> None:
        store.rename("Patisserie")

    async def full(file: AgencyFile) -> None:
        with file.transaction() as db:
            db.execute("ROLLBACK")  # as SQLite does by itself when there is no room
            raise sqlite3.OperationalError("database or disk is full")

    answers = await asyncio.gather(
        store.file.perform(renamed()), store.file.perform(full(store.file)), return_exceptions=True
    )
    assert all(isinstance(each, Exception) for each in answers), answers
    assert store.info().name == "Bakery"
    await store.file.perform(renamed())
    assert store.info().name == "Patisserie"
    store.close()


async def test_closing_commits_what_was_written(office: LoneAgency) -> None:
    renamed = begun(office, "rename", "Patisserie")
    await turns_of_the_loop(3)
    await office.agency.close_in_worker()
    await renamed
    office.reopen()
    assert (await office.call("info")).name == "Patisserie"
