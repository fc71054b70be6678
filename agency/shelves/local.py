"""An agency's shelves in one SQLite file, in a folder beside the agency's own file (docs/decisions/0014).

Hosts, the directory and Ray tasks of one machine, or of all machines that share the storage, open it at once. The one
idea: every operation is one connection and one transaction, so SQLite's lock is the only one there is, nothing is kept
in memory that could be old, and a process that dies leaves an entry as it was or as it was to be.

Because connections come and go, the file always has a rollback journal and synced commits, as on shared storage: with
a WAL, opened for each operation, reads take three times as long, and what outlives threads should outlive a power cut.

It makes its own folder and nothing above it: after the agency was deleted, a late write fails and brings nothing back.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agency.clock import now_ms
from agency.errors import NotFound, TooLarge, Unavailable, VersionConflict
from agency.events import timestamp
from agency.shelves.interface import (
    ABSENT,
    ShelfEntry,
    ShelfInfo,
    ShelfItem,
    ShelfPage,
    Version,
    checked_content,
    checked_key,
    checked_limit,
    checked_path,
    checked_prefix,
    checked_shelf,
    checked_version,
    new_path,
)
from agency.store import sqlite
from agency.store.sqlite import Layout, Storage, Transaction

FILE = "shelves.db"
APPLICATION_ID = 0x41475348  # "AGSH"
TOTAL_BYTES = 1024 * 1024 * 1024
TOTAL_ENTRIES = 100_000
"""An entry takes some room however small it is."""

STEPS = (
    """
    CREATE TABLE entries (
        id INTEGER PRIMARY KEY, shelf TEXT NOT NULL, path TEXT NOT NULL, version INTEGER NOT NULL,
        size INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, written BLOB,
        UNIQUE (shelf, path)
    ) STRICT;
    CREATE TABLE contents (id INTEGER PRIMARY KEY, content BLOB NOT NULL) STRICT;
    CREATE TABLE totals (
        only INTEGER PRIMARY KEY CHECK (only = 1), version INTEGER NOT NULL, entries INTEGER NOT NULL,
        size INTEGER NOT NULL
    ) STRICT;
    INSERT INTO totals VALUES (1, 0, 0, 0);
    """,
)
"""From nothing to the newest version; a released step is never edited. Contents are apart from what is listed, so that
a list reads no contents. `totals.version` only grows, also when entries go."""

LAYOUT = Layout("an agency's shelves", APPLICATION_ID, STEPS)
STORAGE = Storage("FULL", shared=True)

_ENTRY = "shelf, path, version, size, created_at, updated_at"


@dataclass(frozen=True, slots=True)
class LocalShelves:
    """`ShelfStore` in a folder."""

    folder: Path
    total_bytes: int = TOTAL_BYTES
    """What all entries together may take."""
    parents: bool = False
    """Whether the folder that holds the folder is made, too. Not for an agency's: it may have been deleted."""

    def shelves(self) -> list[ShelfInfo]:
        rows = self._rows("SELECT shelf, count(*), sum(size) FROM entries GROUP BY shelf ORDER BY shelf")
        return [ShelfInfo(name=name, entries=entries, size=size) for name, entries, size in rows]

    def entries(self, shelf: str, prefix: str = "", *, after: str = "", limit: int = 100) -> ShelfPage:
        beginning, limit = checked_prefix(prefix), checked_limit(limit)
        rows = self._rows(
            f"SELECT {_ENTRY} FROM entries WHERE shelf = ? AND path > ? AND path >= ? AND path < ? "
            "ORDER BY path LIMIT ?",
            (checked_shelf(shelf), checked_prefix(after), beginning, f"{beginning}\U0010ffff", limit + 1),
        )
        found = tuple(_entry(row) for row in rows[:limit])
        return ShelfPage(entries=found, next=found[-1].path if len(rows) > limit else None)

    def read(self, shelf: str, path: str) -> ShelfItem:
        rows = self._rows(
            "SELECT version, content FROM entries JOIN contents USING (id) WHERE shelf = ? AND path = ?",
            (checked_shelf(shelf), checked_path(path)),
        )
        if not rows:
            raise _missing(shelf, path)
        ((version, content),) = rows
        return ShelfItem(content, str(version))

    def write(
        self, shelf: str, path: str, content: bytes, *, if_version: Version | None = None, key: str = ""
    ) -> ShelfEntry:
        name, where, condition = checked_shelf(shelf), new_path(path), checked_version(if_version)
        checked_content(content)
        written = _digest(checked_key(key), condition, content) if key else None
        with self._writing() as db:
            known = _find(db, name, where)
            if known is not None and written is not None and known.written == written:
                return known.entry
            _check(condition, known, name, where)
            self._make_room(db, known, len(content))
            return _put(db, known, name, where, content, written)

    def delete(self, shelf: str, path: str, *, if_version: Version | None = None) -> None:
        name, where, condition = checked_shelf(shelf), checked_path(path), checked_version(if_version)
        if not self._path.exists():
            raise _missing(name, where)
        with self._writing() as db:
            known = _find(db, name, where)
            if known is None:
                raise _missing(name, where)
            _check(condition, known, name, where)
            db.execute("DELETE FROM entries WHERE id = ?", (known.id,))
            db.execute("DELETE FROM contents WHERE id = ?", (known.id,))
            db.execute("UPDATE totals SET entries = entries - 1, size = size - ?", (known.entry.size,))

    @property
    def _path(self) -> Path:
        return self.folder / FILE

    def _rows(self, sql: str, params: Sequence[str | int] = ()) -> list[Any]:
        if not self._path.exists():
            self._check_reachable()
            return []
        with sqlite.store_errors("read", self._path), closing(sqlite.connect(self._path, "rw")) as db:
            if sqlite.version_of(db, self._path, LAYOUT) == 0:
                return []  # its first write is just making it
            return db.execute(sql, params).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._make_folder()
        with sqlite.store_errors("open", self._path):
            db = sqlite.connect(self._path)
        with closing(db):
            with sqlite.store_errors("open", self._path):
                db.execute("PRAGMA auto_vacuum = FULL")  # counts for a new file: what is deleted makes the file smaller
                sqlite.use_journal(db, STORAGE)
                sqlite.use_sync(db, STORAGE.synchronous)
            with Transaction(db, self._path):
                version = sqlite.version_of(db, self._path, LAYOUT)
                if version < len(STEPS):
                    sqlite.take_steps(db, LAYOUT, version)
                yield db

    def _make_folder(self) -> None:
        self._check_reachable()
        try:
            self.folder.mkdir(mode=0o700, parents=self.parents, exist_ok=True)
        except FileNotFoundError as error:
            raise _unreachable() from error

    def _check_reachable(self) -> None:
        if not self.parents and not self.folder.parent.is_dir():
            raise _unreachable()

    def _make_room(self, db: sqlite3.Connection, known: _Known | None, size: int) -> None:
        entries, total = db.execute("SELECT entries, size FROM totals").fetchone()
        before = 0 if known is None else known.entry.size
        if total - before + size > self.total_bytes and size > before:
            raise TooLarge(
                f"an agency's shelves hold at most {self.total_bytes} bytes, and {total} are taken: delete some entries"
            )
        if known is None and entries >= TOTAL_ENTRIES:
            raise TooLarge(f"an agency's shelves hold at most {TOTAL_ENTRIES} entries: delete some first")


@dataclass(frozen=True, slots=True)
class _Known:
    id: int
    written: bytes | None
    """The digest of the write that made it what it is, if that had a key."""
    entry: ShelfEntry


def _find(db: sqlite3.Connection, shelf: str, path: str) -> _Known | None:
    sql = f"SELECT id, written, {_ENTRY} FROM entries WHERE shelf = ? AND path = ?"
    row = db.execute(sql, (shelf, path)).fetchone()
    return None if row is None else _Known(row[0], row[1], _entry(row[2:]))


def _put(
    db: sqlite3.Connection, known: _Known | None, shelf: str, path: str, content: bytes, written: bytes | None
) -> ShelfEntry:
    now, size = now_ms(), len(content)
    new, before = (1, 0) if known is None else (0, known.entry.size)
    totals = "UPDATE totals SET version = version + 1, entries = entries + ?, size = size + ? RETURNING version"
    ((version,),) = db.execute(totals, (new, size - before)).fetchall()
    ((found, *row),) = db.execute(
        f"INSERT INTO entries ({_ENTRY}, written) VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET version = excluded.version, size = excluded.size, updated_at = excluded.updated_at, "
        f"written = excluded.written RETURNING id, {_ENTRY}",
        (shelf, path, version, size, now, now, written),
    ).fetchall()
    db.execute("REPLACE INTO contents VALUES (?, ?)", (found, content))
    return _entry(row)


def _check(condition: Version | None, known: _Known | None, shelf: str, path: str) -> None:
    is_now = ABSENT if known is None else known.entry.version
    if condition not in (None, is_now):
        found = "there is no entry" if known is None else f"its version is {is_now}"
        wanted = "there should be none" if condition == ABSENT else f"not {condition:.50}"
        raise VersionConflict(f"{shelf}/{path}: {found}, {wanted}; read it again")


def _digest(key: str, condition: Version | None, content: bytes) -> bytes:
    named = f"{key}\0{'' if condition is None else condition}\0".encode("utf-8", "replace")
    return hashlib.blake2b(named + content, digest_size=16).digest()


def _entry(row: Sequence[Any]) -> ShelfEntry:
    shelf, path, version, size, created, updated = row
    return ShelfEntry(
        shelf=shelf,
        path=path,
        version=str(version),
        size=size,
        created_at=timestamp(created),
        updated_at=timestamp(updated),
    )


def _missing(shelf: str, path: str) -> NotFound:
    return NotFound(f"shelf {shelf!r} has no entry {path!r:.200}")


def _unreachable() -> Unavailable:
    return Unavailable(
        "the agency's shelves are not on this machine, or the agency was deleted: a tool that runs elsewhere reaches "
        "them if the data folder is on shared storage"
    )
