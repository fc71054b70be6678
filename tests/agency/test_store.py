"""The thread store by itself: one transaction per draft, gapless numbers, one writer, versions."""

from __future__ import annotations

import pickle
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agency import Message, NewerStore, NotAThreadStore, NotFound, StaleActivation, StoreError, ToolError, events
from agency.store import records, schema
from agency.store.draft import Draft
from agency.store.peek import glance, holds_thread, latest_order
from agency.store.sqlite import Storage
from agency.store.store import ThreadStore
from agency.store.timers import Timer, drop_timer, set_timer, timers

NEW = {"thread_id": "thr_1"}


@pytest.fixture(autouse=True)
def all_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close whatever a test has opened."""
    opened: list[ThreadStore] = []
    really_open = ThreadStore.open

    def recording_open(*args: Any, **kwargs: Any) -> ThreadStore:
        opened.append(really_open(*args, **kwargs))
        return opened[-1]

    monkeypatch.setattr(ThreadStore, "open", recording_open)
    yield
    for each in opened:
        each.close()


@pytest.fixture
def store(tmp_path: Path) -> ThreadStore:
    return ThreadStore.open(tmp_path / "a.db", create=NEW)


def test_an_order_to_open_a_file_that_comes_after_a_later_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    assert latest_order(path) == 0
    first = ThreadStore.open(path, create=NEW, order=20)
    add(first, "a")
    assert latest_order(path) == 20
    for order in (20, 30, 0):
        ThreadStore.open(path, order=order)
    with pytest.raises(StaleActivation, match="opened by order 30, and this is order 29"):
        ThreadStore.open(path, create=NEW, order=29)
    latest = ThreadStore.open(path, order=31)
    with pytest.raises(StaleActivation):
        ThreadStore.open(path, order=1)
    add(latest, "b")  # which has changed nothing
    assert latest_order(path) == 31


def add(store: ThreadStore, *texts: str) -> None:
    draft = store.draft(run=1)
    for text in texts:
        draft.messages.append(Message(role="user", content=text))
        draft.emit(events.run_tick(1))
    store.commit(draft)


def test_messages_and_events_count_from_one_without_a_gap_across_reopening(store: ThreadStore) -> None:
    add(store, "a", "b")
    add(store, "c")
    store.close()
    again = ThreadStore.open(store.path)
    add(again, "d")
    assert [event.seq for event in again.events()] == [1, 2, 3, 4]
    assert [message.content for message in again.messages()] == ["a", "b", "c", "d"]
    assert [message.content for message in again.messages(after=1, upto=3)] == ["b", "c"]


def test_events_are_read_in_pages_after_any_seq(store: ThreadStore) -> None:
    add(store, *"abcdef")
    assert [event.seq for event in store.events(after=2, limit=3)] == [3, 4, 5]
    assert store.events(after=6) == []


def test_a_draft_that_fails_changes_nothing(store: ThreadStore) -> None:
    draft = store.draft(run=1)
    draft.messages.append(Message(role="user", content="lost"))
    draft.emit(events.run_tick(1))
    draft.execute("INSERT INTO timers VALUES ('t', 1)")
    draft.execute("INSERT INTO timers VALUES ('t', 2)")  # the name is taken by now
    with pytest.raises(StoreError, match="UNIQUE"):
        store.commit(draft)
    assert (store.messages(), store.events(), timers(store)) == ([], [], [])
    add(store, "kept")
    assert [event.seq for event in store.events()] == [1]


def test_a_draft_sees_its_own_writes_and_nobody_else_does_before_the_commit(store: ThreadStore) -> None:
    draft = store.draft()
    draft.put("me", "colour", "blue")
    assert draft.get("me", "colour") == "blue"
    assert store.draft().get("me", "colour") is None
    store.commit(draft)
    assert store.draft().get("me", "colour") == "blue"
    last = store.draft()
    last.put("me", "colour", None)
    assert last.get("me", "colour") is None
    assert store.draft().get("me", "colour") == "blue"


def test_a_second_writer_fences_off_the_first(store: ThreadStore) -> None:
    add(store, "mine")
    second = ThreadStore.open(store.path)
    with pytest.raises(StaleActivation):
        add(store, "too late")
    add(second, "yours")
    assert [message.content for message in second.messages()] == ["mine", "yours"]
    assert second.epoch == store.epoch + 1


def test_opening_what_is_not_there_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        ThreadStore.open(tmp_path / "missing.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"just text, and long enough to be a header of something", b"\x00" * 4096])
def test_a_file_that_is_no_store_is_refused_untouched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(content)
    with pytest.raises(NotAThreadStore, match=r"a\.db"):
        ThreadStore.open(path, create=NEW)
    assert path.read_bytes() == content
    assert not holds_thread(path)
    assert glance(path).due is None


def test_somebody_elses_sqlite_file_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE recipes (name TEXT)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(NotAThreadStore, match="not a thread's"):
        ThreadStore.open(path, create=NEW)
    assert path.read_bytes() == before


def test_a_newer_file_is_refused_untouched(store: ThreadStore) -> None:
    add(store, "a")
    store.close()
    with sqlite3.connect(store.path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    before = store.path.read_bytes()
    with pytest.raises(NewerStore, match="version 99"):
        ThreadStore.open(store.path)
    assert store.path.read_bytes() == before


def test_an_older_file_is_migrated_when_it_is_opened(store: ThreadStore, monkeypatch: pytest.MonkeyPatch) -> None:
    add(store, "old")
    store.close()
    released = schema.LAYOUT
    later = (*released.steps, "CREATE TABLE later (x INTEGER) STRICT")
    monkeypatch.setattr(schema, "LAYOUT", replace(released, steps=later))
    again = ThreadStore.open(store.path)
    assert again.query("SELECT count(*) FROM later") == [(0,)]
    assert [message.content for message in again.messages()] == ["old"]
    again.close()
    monkeypatch.setattr(schema, "LAYOUT", released)
    with pytest.raises(NewerStore):
        ThreadStore.open(store.path)


def test_a_migration_that_fails_leaves_the_old_version(store: ThreadStore, monkeypatch: pytest.MonkeyPatch) -> None:
    add(store, "old")
    store.close()
    broken = "CREATE TABLE half (x INTEGER) STRICT; CREATE TABLE half (x INTEGER) STRICT"
    with monkeypatch.context() as patched:
        patched.setattr(schema, "LAYOUT", replace(schema.LAYOUT, steps=(*schema.STEPS, broken)))
        with pytest.raises(StoreError, match="half"):
            ThreadStore.open(store.path)
    again = ThreadStore.open(store.path)
    assert again.query("SELECT count(*) FROM sqlite_schema WHERE name = 'half'") == [(0,)]


def test_a_middlewares_tables_grow_by_steps_and_never_shrink(store: ThreadStore) -> None:
    first = "CREATE TABLE own (x INTEGER) STRICT"
    second = "ALTER TABLE own ADD COLUMN y INTEGER"
    store.prepare_tables({"mine": (first,)})
    store.prepare_tables({"mine": (first, second)})
    store.prepare_tables({"mine": (first, second)})
    assert store.query("SELECT count(x), count(y) FROM own") == [(0, 0)]
    with pytest.raises(NewerStore, match="mine"):
        store.prepare_tables({"mine": (first,)})


def test_creating_that_was_cut_short_can_be_done_again(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.touch()
    assert not holds_thread(path)
    with pytest.raises(NotFound):
        ThreadStore.open(path)
    ThreadStore.open(path, create=NEW).close()
    assert not holds_thread(path)  # its first event is not there yet
    with pytest.raises(NotFound):
        ThreadStore.open(path)
    store = ThreadStore.open(path, create={"thread_id": "thr_2"})
    assert store.thread_id == "thr_2"
    add(store, "first")
    assert holds_thread(path)
    assert ThreadStore.open(path, create={"thread_id": "thr_3"}).thread_id == "thr_2"


def test_a_thread_has_work_while_it_runs_or_has_mail_or_a_timer(store: ThreadStore) -> None:
    assert glance(store.path).due is None
    draft = store.draft()
    set_timer(draft, Timer("child", key="t"), 5)
    set_timer(draft, Timer("child", key="u"), 7)
    store.commit(draft)
    assert glance(store.path).due == 5
    draft = store.draft()
    drop_timer(draft, Timer("child", key="t"))
    records.add_run(draft, 1, 0, None, None)
    store.commit(draft)
    assert glance(store.path).due == 0
    draft = store.draft()
    drop_timer(draft, Timer("child", key="u"))
    records.save_run(draft, 1, "paused", b"{}")
    store.commit(draft)
    assert glance(store.path).due is None


def test_a_wal_that_was_cut_anywhere_gives_a_store_that_opens_at_some_earlier_commit(tmp_path: Path) -> None:
    store = ThreadStore.open(tmp_path / "a.db", create=NEW)
    for number in range(12):
        add(store, str(number))
    wal = Path(f"{store.path}-wal").read_bytes()
    everything = [str(number) for number in range(12)]
    lengths = set()
    for cut in range(0, len(wal), 487):
        torn = tmp_path / "torn.db"
        shutil.copy(store.path, torn)
        Path(f"{torn}-wal").write_bytes(wal[:cut])
        if not holds_thread(torn):
            continue  # cut before the commit that made the thread
        opened = ThreadStore.open(torn)
        messages = [message.content for message in opened.messages()]
        assert messages == everything[: len(messages)]
        assert [event.seq for event in opened.events()] == list(range(1, len(messages) + 1))
        add(opened, "more")
        lengths.add(len(messages))
        opened.close()
    assert lengths >= set(range(1, 11))


def test_a_store_that_dozed_goes_on_where_it_was_and_is_still_fenced(store: ThreadStore) -> None:
    add(store, "a")
    open_before = store.is_open
    store.doze()
    assert (open_before, store.is_open) == (True, False)
    assert not store.path.with_name("a.db-wal").exists(), "it holds no file open"
    add(store, "b")
    store.doze()
    assert [message.content for message in store.messages()] == ["a", "b"]
    store.doze()
    add(ThreadStore.open(store.path), "c")
    with pytest.raises(StaleActivation):
        add(store, "d")


def test_a_store_whose_file_is_gone_does_not_come_back_as_a_new_one(store: ThreadStore) -> None:
    add(store, "a")
    store.doze()
    store.path.unlink()
    with pytest.raises(StoreError, match="reopen"):
        add(store, "b")
    assert not store.path.exists()


def test_on_shared_storage_there_is_no_wal_and_a_second_writer_takes_over_at_once(tmp_path: Path) -> None:
    shared = Storage(shared=True)
    first = ThreadStore.open(tmp_path / "a.db", create=NEW, storage=shared)
    add(first, "a")
    assert first.query("PRAGMA journal_mode") == [("truncate",)]
    assert first.query("PRAGMA synchronous") == [(1,)], "NORMAL"
    assert {path.name for path in tmp_path.iterdir()} == {"a.db", "a.db-journal"}
    assert holds_thread(first.path)
    second = ThreadStore.open(first.path, storage=shared)
    add(second, "b")
    with pytest.raises(StaleActivation):
        add(first, "c")
    second.close()
    back = ThreadStore.open(first.path)
    assert back.query("PRAGMA journal_mode") == [("wal",)], "and it can go back to one machine"
    assert [message.content for message in back.messages()] == ["a", "b"]


def test_on_shared_storage_a_new_thread_is_in_its_file_before_that_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr("agency.store.store._take_over", lambda *_: pytest.fail("it was made in one piece"))
    monkeypatch.setattr("os.fsync", lambda _: synced.extend(path.name for path in tmp_path.iterdir()))
    store = ThreadStore.open(tmp_path / "a.db", create=NEW, storage=Storage("FULL", shared=True), order=7)
    (name,) = synced
    assert name.startswith(".a.db."), "it has its name when it is on disk"
    assert (store.epoch, store.meta("epoch"), store.meta("order")) == (1, 1, 7)
    assert store.thread_id == NEW["thread_id"]
    assert store.query("PRAGMA synchronous") == [(2,)], "FULL, as it was asked for"
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]
    store.close()


def test_of_two_that_make_a_thread_on_shared_storage_the_later_one_has_it(tmp_path: Path) -> None:
    shared = Storage(shared=True)
    first, second = (ThreadStore.open(tmp_path / "a.db", create=NEW, storage=shared) for _ in range(2))
    with pytest.raises(StaleActivation):
        add(first, "a")
    add(second, "b")
    first.close()
    second.close()


def test_a_new_file_is_whole_from_its_first_moment_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    store = ThreadStore.open(tmp_path / "a.db", create=NEW)
    assert store.query("PRAGMA page_size") == [(schema.PAGE_SIZE,)]
    assert store.query("PRAGMA synchronous") == [(1,)], "NORMAL, after it was made"
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]


def test_what_a_draft_stages_in_another_process_is_taken_back(store: ThreadStore) -> None:
    draft = store.draft(run=1)
    draft.put("tool", "before", 1)
    elsewhere: Draft = pickle.loads(pickle.dumps(draft))
    elsewhere.put("tool", "there", 2)
    elsewhere.emit(events.run_tick(1))
    with pytest.raises(ToolError, match="not read it"):
        elsewhere.get("tool", "before")
    draft.absorb(elsewhere)
    assert (draft.get("tool", "before"), draft.get("tool", "there")) == (1, 2)
    store.commit(draft)
    assert store.last_seq == 1
