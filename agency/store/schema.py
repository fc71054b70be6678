"""The layout of a thread's file: its own tables, and those that middleware keep in it.

A released step is never edited (see `sqlite.Layout`). Pages are small because a thread is: every table takes at least
one page, and every commit writes whole pages (docs/decisions/0005).
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from agency.errors import NewerStore, NotAThreadStore
from agency.store import history, sqlite
from agency.store.sqlite import Layout

APPLICATION_ID = 0x41474E43  # "AGNC"
PAGE_SIZE = 1024

STEPS = (
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY NOT NULL) WITHOUT ROWID, STRICT;
    CREATE TABLE messages (seq INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY, ts INTEGER NOT NULL, type INTEGER NOT NULL, run INTEGER NOT NULL, data TEXT NOT NULL
    ) STRICT;
    CREATE TABLE runs (
        n INTEGER PRIMARY KEY, status TEXT NOT NULL, machine BLOB NOT NULL, started_at INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE surface (n INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
    CREATE TABLE effects (
        run INTEGER NOT NULL, effect INTEGER NOT NULL, call TEXT NOT NULL, outcome BLOB,
        PRIMARY KEY (run, effect, call)
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE inbox (seq INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
    CREATE TABLE requests (
        key TEXT PRIMARY KEY, run INTEGER NOT NULL, status TEXT NOT NULL
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE children (
        seq INTEGER PRIMARY KEY, token TEXT NOT NULL UNIQUE, thread TEXT NOT NULL, agent_type TEXT NOT NULL,
        run INTEGER NOT NULL, effect INTEGER NOT NULL, call TEXT NOT NULL, status TEXT NOT NULL, report TEXT,
        created_at INTEGER NOT NULL, completed_at INTEGER
    ) STRICT;
    CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, parcel BLOB NOT NULL) STRICT;
    CREATE TABLE timers (name TEXT PRIMARY KEY, due INTEGER NOT NULL) WITHOUT ROWID, STRICT;
    CREATE TABLE kv (
        owner TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (owner, key)
    ) WITHOUT ROWID, STRICT;
    """,
    # What the result of a run must fit, and what a child has used.
    """
    ALTER TABLE runs ADD COLUMN output BLOB;
    ALTER TABLE children ADD COLUMN spent BLOB;
    """,
    # Messages that wait for the next run, or interrupt this one; children in the background, and who waits for them;
    # what the thread was after each event (see `history`).
    """
    ALTER TABLE inbox ADD COLUMN timing TEXT NOT NULL DEFAULT 'next_step';
    ALTER TABLE inbox ADD COLUMN terms TEXT;
    ALTER TABLE effects ADD COLUMN began_at INTEGER;
    ALTER TABLE children ADD COLUMN background INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE waits (
        run INTEGER NOT NULL, effect INTEGER NOT NULL, call TEXT NOT NULL, tokens TEXT NOT NULL,
        PRIMARY KEY (run, effect, call)
    ) WITHOUT ROWID, STRICT;
    ALTER TABLE messages ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE undo (n INTEGER PRIMARY KEY, at INTEGER NOT NULL, sql TEXT NOT NULL) STRICT;
    """,
    # The replies of models that hooks and tools have asked in a run; and, by their digests, the tokens by which calls
    # are settled from outside.
    """
    CREATE TABLE asides (
        run INTEGER NOT NULL, name TEXT NOT NULL, reply BLOB NOT NULL, PRIMARY KEY (run, name)
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE tokens (
        digest TEXT PRIMARY KEY, run INTEGER NOT NULL, effect INTEGER NOT NULL, call TEXT NOT NULL, about TEXT NOT NULL,
        created_at INTEGER NOT NULL, deadline INTEGER NOT NULL, status TEXT NOT NULL, outcome BLOB
    ) WITHOUT ROWID, STRICT;
    """,
    # What a run has in the place of the blueprint's: models, parameters, tools, options of middleware.
    """
    ALTER TABLE runs ADD COLUMN options BLOB;
    """,
    # What a request with an idempotency key asked for.
    """
    ALTER TABLE requests ADD COLUMN digest TEXT;
    """,
    # Every surface that a model was asked with, in pieces that surfaces share, by digest; and what people who look for
    # a defect want to know of a call: its traceback, what it printed, what was asked aside. `at` is the last event
    # before each. The table `surface` names the latest surface; in older files it holds that whole.
    """
    CREATE TABLE surfaces (digest TEXT PRIMARY KEY, at INTEGER NOT NULL, body BLOB NOT NULL) WITHOUT ROWID, STRICT;
    CREATE TABLE details (
        n INTEGER PRIMARY KEY, at INTEGER NOT NULL, run INTEGER NOT NULL, kind TEXT NOT NULL, call TEXT NOT NULL,
        body BLOB NOT NULL
    ) STRICT;
    """,
)

LAYOUT = Layout("a thread", APPLICATION_ID, STEPS, NotAThreadStore)

HISTORY = 3
"""The version since which a file knows what it was."""


def check(db: sqlite3.Connection, path: Path) -> int:
    """The file's version; 0 is an empty file. Raises if it is no thread's, or newer than this release."""
    return sqlite.version_of(db, path, LAYOUT)


def migrate(db: sqlite3.Connection, version: int) -> None:
    """Take the steps that are missing. The caller has begun the transaction, so it is all or nothing."""
    if version == len(LAYOUT.steps):
        return
    history.leave(db)  # no step could rename or drop a column that an undo trigger names
    sqlite.take_steps(db, LAYOUT, version)
    history.follow(db)
    if 0 < version < HISTORY:
        history.begin(db)


Tables = Mapping[str, tuple[str, ...]]
"""By the name of a middleware, the steps from nothing to its newest tables."""


def template(tables: Tables) -> bytes:
    """An empty file of the newest version, in WAL mode. Writing it out takes a fraction of the time of making it."""
    return _template(tuple(tables.items()))


@functools.lru_cache(maxsize=64)
def _template(tables: tuple[tuple[str, tuple[str, ...]], ...]) -> bytes:
    db = sqlite3.connect(":memory:", isolation_level=None)
    try:
        db.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        db.execute("BEGIN")
        migrate(db, 0)
        prepare(db, dict(tables))
        db.execute("COMMIT")
        image = bytearray(db.serialize())
    finally:
        db.close()
    image[18:20] = b"\x02\x02"  # the header's read and write versions: 2 is WAL
    return bytes(image)


def filled(tables: Tables, fill: Callable[[sqlite3.Connection], None]) -> bytes:
    """The same with a rollback journal, and with what `fill` writes into it."""
    image = bytearray(template(tables))
    image[18:20] = b"\x01\x01"
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.deserialize(bytes(image))
        fill(db)
        return db.serialize()


def is_prepared(db: sqlite3.Connection, tables: Tables) -> bool:
    """Whether the tables that middleware keep in the file are of their newest version."""
    return not any(_missing(db, owner, steps) for owner, steps in tables.items())


def prepare(db: sqlite3.Connection, tables: Tables) -> None:
    """Take the steps that are missing to that, in the caller's transaction."""
    history.change_tables(db, [step for owner, steps in tables.items() for step in _missing(db, owner, steps)])
    for owner, steps in tables.items():
        db.execute("REPLACE INTO meta VALUES (?, ?)", (f"tables.{owner}", len(steps)))


def _missing(db: sqlite3.Connection, owner: str, steps: tuple[str, ...]) -> tuple[str, ...]:
    row = db.execute("SELECT value FROM meta WHERE key = ?", (f"tables.{owner}",)).fetchone()
    version = int(row[0]) if row else 0
    if version > len(steps):
        raise NewerStore(f"the tables of middleware {owner!r} have version {version}, it knows up to {len(steps)}")
    return steps[version:]
