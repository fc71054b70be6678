"""The undo log by itself: whatever is written to a table, what it was after each event comes back to the byte."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agency import events
from agency.store import history, schema
from agency.store.draft import Row, Value
from agency.store.store import ThreadStore

TABLES = {
    "keyed": "CREATE TABLE it (k INTEGER PRIMARY KEY, a, b BLOB UNIQUE, c TEXT COLLATE NOCASE) ",
    "strict": "CREATE TABLE it (k TEXT PRIMARY KEY, a ANY, b ANY UNIQUE, c TEXT COLLATE NOCASE) STRICT",
    "without rowid": "CREATE TABLE it (k ANY PRIMARY KEY, a ANY, b ANY UNIQUE, c ANY) STRICT, WITHOUT ROWID",
    "two keys": "CREATE TABLE it (k, a, b UNIQUE, c, PRIMARY KEY (k, a))",
    "no key": "CREATE TABLE it (k, a, b UNIQUE, rowid)",
    "odd names": """CREATE TABLE "it" ("k" INTEGER PRIMARY KEY, a, b UNIQUE, "c'?9 ""x" )""",
}

values: st.SearchStrategy[Value] = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(["", "\0", "a\0b", "it's", 'say "x"', "?1", "ä", "A", "a", "1", "1.0"]),
    st.binary(max_size=8),
    st.sampled_from([1, 1.0, b"", b"\0", b"1", float("inf")]),
)
few = st.sampled_from([1, 2, 3])
WRITES: dict[str, tuple[st.SearchStrategy[Value], ...]] = {
    "INSERT OR IGNORE INTO it VALUES (?, ?, ?, ?)": (few, values, values, values),
    "REPLACE INTO it VALUES (?, ?, ?, ?)": (few, values, values, values),
    "INSERT INTO it VALUES (?, ?, ?, NULL) ON CONFLICT DO UPDATE SET a = excluded.a": (few, values, values),
    "UPDATE OR IGNORE it SET a = ?, b = ? WHERE k = ?": (values, values, few),
    "UPDATE OR REPLACE it SET b = ?": (values,),
    "UPDATE OR REPLACE it SET k = ? WHERE k = ?": (few, few),
    "UPDATE it SET a = a": (),
    "DELETE FROM it WHERE k = ?": (few,),
    "DELETE FROM it": (),
}
write = st.sampled_from(sorted(WRITES)).flatmap(lambda sql: st.tuples(st.just(sql), st.tuples(*WRITES[sql])))
commits = st.lists(st.tuples(st.lists(write, max_size=3), st.booleans()), max_size=8)


def new_file(table: str) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("PRAGMA recursive_triggers = ON")
    schema.migrate(db, 0)
    db.execute(table)
    history.follow(db)
    return db


def content(db: sqlite3.Connection) -> list[Row]:
    """Every row, with the types of what is in it."""
    rows: list[Row] = db.execute("SELECT *, typeof(k), typeof(a), typeof(b) FROM it").fetchall()
    return sorted(rows, key=repr)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
@settings(deadline=None, max_examples=50)
@given(done=commits)
def test_whatever_is_written_what_was_after_every_event_comes_back(
    table: str, done: list[tuple[list[tuple[str, tuple[Value, ...]]], bool]]
) -> None:
    db = new_file(table)
    known = {0: content(db)}
    last = 0
    for writes, tells in done:
        db.execute("BEGIN")
        for sql, given_values in writes:
            with suppress(sqlite3.IntegrityError):  # a type that a strict column does not take, or a name that is taken
                db.execute(sql, given_values)
        if tells:
            last += 1
            db.execute("INSERT INTO events VALUES (?, 0, 0, 0, '{}')", (last,))
        else:
            db.execute(history.BELONGS_BEFORE, (last,))
        db.execute("COMMIT")
        known[last] = content(db)
    for seq in range(last, -1, -1):
        history.revert(db, seq)
        assert content(db) == known[seq]
    db.close()


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[[], ThreadStore]]:
    opened: list[ThreadStore] = []

    def open_it() -> ThreadStore:
        opened.append(ThreadStore.open(tmp_path / "a.db", create={"thread_id": "a"}))
        return opened[-1]

    yield open_it
    for each in opened:
        each.close()


def commit(store: ThreadStore, *writes: str, tells: bool = True) -> None:
    draft = store.draft()
    for sql in writes:
        draft.execute(sql)
    if tells:
        draft.emit(events.run_tick(1))
    store.commit(draft)


def reverted(store: ThreadStore, seq: int, sql: str) -> list[Row]:
    copy = sqlite3.connect(":memory:", isolation_level=None)
    with sqlite3.connect(store.path) as db:
        db.backup(copy)
    db.close()
    history.revert(copy, seq)
    rows: list[Row] = copy.execute(sql).fetchall()
    copy.close()
    return rows


def test_a_change_that_no_event_came_of_belongs_to_the_event_before_it(open_store: Callable[[], ThreadStore]) -> None:
    store = open_store()
    commit(store)
    commit(store, "INSERT INTO kv VALUES ('a', 'k', '1')")
    commit(store, "UPDATE kv SET value = '2'", tells=False)
    commit(store, "UPDATE kv SET value = '3'", tells=False)
    commit(store, "UPDATE kv SET value = '4'")
    kept = "SELECT value FROM kv"
    assert [reverted(store, seq, kept) for seq in (1, 2, 3)] == [[], [("3",)], [("4",)]]


def test_what_changes_nothing_leaves_nothing_in_the_log(open_store: Callable[[], ThreadStore]) -> None:
    store = open_store()
    commit(store, "INSERT INTO kv VALUES ('a', 'k', '1')")
    before = store.query("SELECT count(*) FROM undo")
    draft = store.draft()
    draft.put("a", "k", 1)
    draft.execute("UPDATE kv SET value = value")
    store.commit(draft)
    commit(store)
    assert store.query("SELECT count(*) FROM undo") == before


def test_what_is_large_and_has_not_changed_is_not_written_down(open_store: Callable[[], ThreadStore]) -> None:
    store = open_store()
    store.prepare_tables({"mine": ("CREATE TABLE it (k INTEGER PRIMARY KEY, content BLOB, seen INTEGER) STRICT",)})
    commit(store, "INSERT INTO it VALUES (1, zeroblob(100000), 0)")
    commit(store, "UPDATE it SET seen = 1")
    size = "SELECT sum(length(v2)) FROM undo"
    assert store.query(size) == [(None,)]
    commit(store, "UPDATE it SET content = x'00'")
    assert store.query(size) == [(100_000,)]
    assert reverted(store, 1, "SELECT length(content), seen FROM it") == [(100_000, 0)]


def test_tables_that_grow_keep_their_history_and_tables_that_are_rebuilt_begin_it_anew(
    open_store: Callable[[], ThreadStore],
) -> None:
    store = open_store()
    first = "CREATE TABLE it (k INTEGER PRIMARY KEY, a TEXT) STRICT"
    second = "ALTER TABLE it ADD COLUMN b TEXT NOT NULL DEFAULT 'new'"
    store.prepare_tables({"mine": (first,)})
    commit(store, "INSERT INTO it VALUES (1, 'one')")
    commit(store, "DELETE FROM it")
    store.prepare_tables({"mine": (first, second)})
    commit(store, "INSERT INTO it VALUES (2, 'two', 'b')")
    commit(store, "UPDATE it SET b = 'c'")
    everything = "SELECT * FROM it"
    found = [reverted(store, seq, everything) for seq in (1, 2, 3, 4)]
    assert found == [[(1, "one", "new")], [], [(2, "two", "b")], [(2, "two", "c")]]
    store.prepare_tables({"mine": (first, second, "ALTER TABLE it DROP COLUMN a")})
    commit(store, "UPDATE it SET b = 'd'")
    assert store.meta("history") == 4
    assert reverted(store, 4, everything) == [(2, "c")]


def test_triggers_of_middleware_do_not_fire_when_something_is_taken_back(
    open_store: Callable[[], ThreadStore],
) -> None:
    store = open_store()
    tables = (
        "CREATE TABLE it (k INTEGER PRIMARY KEY) STRICT",
        "CREATE TABLE counted (n INTEGER NOT NULL) STRICT",
        "CREATE TRIGGER counting AFTER DELETE ON it BEGIN INSERT INTO counted VALUES (OLD.k); END",
    )
    store.prepare_tables({"mine": tables})
    commit(store)
    commit(store, "INSERT INTO it VALUES (1)")
    commit(store, "DELETE FROM it")
    assert [reverted(store, seq, "SELECT n FROM counted") for seq in (1, 2, 3)] == [[], [], [(1,)]]
