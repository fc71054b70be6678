"""The layout of a thread's file, as a list of steps from nothing to the newest version.

A step, once released, is never edited: old files must open for ever. `PRAGMA user_version` is the number of steps that
a file has taken; `PRAGMA application_id` marks it as ours. Pages are small because a thread is: every table takes at
least one page, and every commit writes whole pages.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Mapping

from agency.errors import NewerStore, NotAThreadStore
from agency.store import history

APPLICATION_ID = 0x41474E43  # "AGNC"
PAGE_SIZE = 1024

STEPS: list[str] = [
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
]

HISTORY = 3
"""The version since which a file knows what it was."""


def check(db: sqlite3.Connection, path: str) -> int:
    """The file's version; 0 is an empty file. Refuses, without touching it, a file that is not for us."""
    snapshot = not db.in_transaction  # somebody else may be creating it right now
    try:
        if snapshot:
            db.execute("BEGIN")
        (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (application,) = db.execute("PRAGMA application_id").fetchone()
        if snapshot:
            db.execute("ROLLBACK")
    except sqlite3.OperationalError:
        raise  # no room, no rights, too many open files: not the file's fault
    except sqlite3.DatabaseError as error:
        raise NotAThreadStore(f"{path} is not a thread's file, or is damaged: {error}") from error
    if application != APPLICATION_ID and (tables or version or application):
        raise NotAThreadStore(f"{path} is an SQLite file, but not a thread's")
    if version > len(STEPS):
        raise NewerStore(
            f"{path} has version {version} and this release knows up to {len(STEPS)}: "
            "open it with the release that wrote it, or a newer one"
        )
    return int(version)


def migrate(db: sqlite3.Connection, version: int) -> None:
    """Take the steps that are missing. The caller has begun the transaction, so it is all or nothing."""
    if version == len(STEPS):
        return
    history.leave(db)
    for step in STEPS[version:]:
        for statement in step.split(";"):
            if statement.strip():
                db.execute(statement)
    history.follow(db)
    if 0 < version < HISTORY:
        history.begin(db)
    db.execute(f"PRAGMA user_version = {len(STEPS)}")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")


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
