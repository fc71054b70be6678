"""Looking into a thread's file from outside, whoever has it and whatever is done to it meanwhile."""

from __future__ import annotations

import multiprocessing
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from agency import events
from agency.errors import StoreError
from agency.store import peek, sqlite
from agency.store.peek import Glance, events_between, glance
from agency.store.sqlite import LOCAL, Storage
from agency.store.store import ThreadStore
from tests.support.damage import DAMAGES

BORN = "2025-01-01T00:00:00.000Z"
META = {"thread_id": "t", "metadata": f'{{"createdAt": "{BORN}"}}', "blueprint": "{}"}


def grow(store: ThreadStore, many: int) -> None:
    draft = store.draft()
    for i in range(many):
        draft.emit(events.run_tick(i))
    store.commit(draft)


def seqs(path: Path, first: int = 1, last: int = 1_000, born: str = BORN) -> list[int | None]:
    return [event.seq for event in events_between(path, first, last, born)]


@pytest.mark.parametrize("storage", [LOCAL, Storage(shared=True)])
def test_events_are_read_while_somebody_else_writes_and_after_that(tmp_path: Path, storage: Storage) -> None:
    path = tmp_path / "t.db"
    store = ThreadStore.open(path, create=META, storage=storage)
    grow(store, 3)
    assert seqs(path) == [1, 2, 3]
    grow(store, 2)
    assert seqs(path, 2, 4) == [2, 3, 4]
    assert events_between(path, 1, 9, BORN) == store.events()
    store.doze()
    assert seqs(path) == [1, 2, 3, 4, 5]
    grow(store, 1)
    store.close()
    assert seqs(path, 6, 6) == [6]
    assert glance(path).seq == 6


def test_a_file_that_nobody_has_open_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    store = ThreadStore.open(path, create=META)
    grow(store, 3)
    store.close()
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert (seqs(path), glance(path).seq) == ([1, 2, 3], 3)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [each.name for each in tmp_path.iterdir()] == ["t.db"]


def test_a_thread_that_is_gone_or_another_has_no_events(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    assert seqs(path) == []
    path.touch()
    assert seqs(path) == []
    path.write_bytes(b"garbage" * 1_000)
    assert seqs(path) == []
    path.unlink()
    sqlite3.connect(path).execute("CREATE TABLE meta (x)").connection.close()
    assert seqs(path) == []
    path.unlink()
    store = ThreadStore.open(path, create=META)
    grow(store, 1)
    assert seqs(path, born="2024-12-31T00:00:00.000Z") == [1]
    assert seqs(path, born="2025-01-01T00:00:00.001Z") == []
    path.unlink()
    assert seqs(path) == []
    store.close()
    assert glance(path) == Glance()


def test_what_was_written_while_it_was_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.db"
    store = ThreadStore.open(path, create=META)
    grow(store, 3)
    store.close()
    read, tries = peek._read, 0

    def disturbed(*args: object) -> object:
        nonlocal tries
        tries += 1
        found: object = read(*args)  # type: ignore[arg-type]  # whatever it takes
        if tries == 1:
            again = ThreadStore.open(path)
            grow(again, 2)
            again.close()
        return found

    monkeypatch.setattr(peek, "_read", disturbed)
    assert seqs(path) == [1, 2, 3, 4, 5]
    assert tries == 2


def test_a_file_that_cannot_be_read_now_is_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.db"
    store = ThreadStore.open(path, create=META, storage=Storage(shared=True))
    grow(store, 1)
    store.close()
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="locked"):
        seqs(path)
    db.execute("ROLLBACK")
    db.close()
    assert seqs(path) == [1]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
def test_a_damaged_file_has_no_events(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """It stays as it is: an error each time would keep back the events of all other threads."""
    path = tmp_path / "t.db"
    store = ThreadStore.open(path, create=META)
    grow(store, 300)
    store.close()
    damage(path)
    assert seqs(path) == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET type = 999 WHERE seq = 2",
        "UPDATE events SET data = '{' WHERE seq = 2",
        "UPDATE events SET data = '7' WHERE seq = 2",
        f"UPDATE events SET ts = {2**62} WHERE seq = 2",
        "UPDATE meta SET value = '{' WHERE key = 'metadata'",
        "DROP TABLE events",
    ],
)
def test_a_file_with_rows_that_are_no_events_has_none(tmp_path: Path, change: str) -> None:
    path = tmp_path / "t.db"
    store = ThreadStore.open(path, create=META)
    grow(store, 3)
    store.close()
    with sqlite3.connect(path) as db:
        db.execute(change)
    db.close()
    assert seqs(path) == []


def _write(path: Path, rounds: int, storage: Storage) -> None:
    for _ in range(rounds):
        store = ThreadStore.open(path, storage=storage)
        for _ in range(5):
            grow(store, 2)
        store.close()


@pytest.mark.parametrize("storage", [LOCAL, Storage(shared=True)])
def test_a_reader_beside_a_process_that_opens_writes_and_closes_sees_every_event_in_order(
    tmp_path: Path, storage: Storage
) -> None:
    path = tmp_path / "t.db"
    store = ThreadStore.open(path, create=META, storage=storage)
    grow(store, 10)
    store.close()
    rounds = 30
    writer = multiprocessing.get_context("spawn").Process(target=_write, args=(path, rounds, storage))
    writer.start()
    last, looks = 10, 0
    try:
        while last < 10 + 10 * rounds:
            found = seqs(path, last - 9, 10_000)
            assert found == list(range(last - 9, last - 9 + len(found)))
            assert len(found) >= 10, "nothing that was seen goes away"
            last, looks = last - 10 + len(found), looks + 1
    finally:
        writer.join()
    assert writer.exitcode == 0
    assert looks > 5
