"""An agency's file: its name, its blueprints, providers and keys, and the registry of its threads (see also `journal`,
`accounts` and `schedules`).

It is small, and a statement takes some fifty microseconds, less than handing it to another thread would. Nothing of it
is kept in memory, so two activations of one agency, should they ever meet, do each other no harm. How it is read and
written is `agency_file`'s.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from actors.agency.agency_file import AgencyFile
from actors.agency.creation import Creation
from actors.agency.pages import Page
from agency.api.tenancy import AgencyInfo, Budget, KeyInfo, Layer, Layers, ThreadSummary
from agency.approvals.rules import Policy
from agency.define.blueprint import Blueprint
from agency.errors import AgencyError, Damaged, no_agency
from agency.events import timestamp
from agency.idempotency import check_repeated, request_digest
from agency.metadata import ThreadMetadata
from agency.models.providers.entry import Provider
from agency.spending import Spent
from agency.store import sqlite
from agency.store.sqlite import Layout, Storage, Transaction
from agency.thread.views import Part
from agency.turn.state import RunCeiling
from agency.wire import Wire

APPLICATION_ID = 0x41474359  # "AGCY"

STEPS = (
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY NOT NULL) WITHOUT ROWID, STRICT;
    CREATE TABLE blueprints (
        name TEXT PRIMARY KEY, body TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE threads (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, parent TEXT, state TEXT NOT NULL,
        metadata TEXT NOT NULL, creation TEXT
    ) STRICT;
    CREATE INDEX threads_by_parent ON threads (parent) WHERE parent IS NOT NULL;
    CREATE INDEX threads_unfinished ON threads (state) WHERE state <> 'ready';
    """,
    """
    CREATE TABLE keys (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, digest TEXT NOT NULL, created_at TEXT NOT NULL
    ) WITHOUT ROWID, STRICT;
    ALTER TABLE threads ADD COLUMN status TEXT NOT NULL DEFAULT 'idle';
    ALTER TABLE threads ADD COLUMN reason TEXT;
    ALTER TABLE threads ADD COLUMN head INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE threads ADD COLUMN updated_at INTEGER;
    CREATE INDEX threads_by_status ON threads (status, seq);
    CREATE INDEX threads_by_reason ON threads (reason, seq) WHERE reason IS NOT NULL;
    CREATE TABLE journal (
        n INTEGER PRIMARY KEY, thread INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL
    ) STRICT;
    """,
    """
    CREATE TABLE providers (
        name TEXT PRIMARY KEY, body TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE usage (whose TEXT PRIMARY KEY, spent TEXT NOT NULL) WITHOUT ROWID, STRICT;
    ALTER TABLE threads ADD COLUMN spent TEXT NOT NULL DEFAULT '{}';
    ALTER TABLE threads ADD COLUMN children TEXT NOT NULL DEFAULT '{}';
    ALTER TABLE threads ADD COLUMN refused INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX threads_refused ON threads (seq) WHERE refused = 1;
    """,
    """
    CREATE TABLE schedules (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, body TEXT NOT NULL, status TEXT NOT NULL,
        next_at INTEGER, created_at TEXT NOT NULL, updated_at TEXT NOT NULL
    ) STRICT;
    CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;
    CREATE TABLE schedule_runs (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, schedule TEXT NOT NULL, due_at INTEGER NOT NULL,
        started_at INTEGER, ended_at INTEGER, thread TEXT NOT NULL, status TEXT NOT NULL, by TEXT NOT NULL, error TEXT,
        missed_since INTEGER
    ) STRICT;
    CREATE INDEX schedule_runs_by_schedule ON schedule_runs (schedule, seq);
    CREATE INDEX schedule_runs_by_status ON schedule_runs (schedule, status);
    CREATE INDEX schedule_runs_waiting ON schedule_runs (status, seq) WHERE status IN ('queued', 'starting');
    CREATE INDEX schedule_runs_at_work ON schedule_runs (thread) WHERE status IN ('starting', 'started');
    """,
    # What was asked for when a thread or a schedule was made; threads that have not run yet are `registered`.
    """
    ALTER TABLE threads ADD COLUMN digest TEXT;
    ALTER TABLE schedules ADD COLUMN digest TEXT;
    UPDATE threads SET status = 'registered' WHERE status = 'idle';
    """,
    # What threads are called: by themselves (NULL is not known yet, '' is nothing), and by a person.
    """
    ALTER TABLE threads ADD COLUMN title TEXT;
    ALTER TABLE threads ADD COLUMN renamed TEXT;
    """,
    # Whether the owner or the agency has set a provider; the sections of a blueprint's configuration that refer to
    # secrets and that the owner has set, now or before, as threads of it may have them.
    """
    ALTER TABLE providers ADD COLUMN set_by TEXT NOT NULL DEFAULT 'agency';
    ALTER TABLE blueprints ADD COLUMN vouched TEXT NOT NULL DEFAULT '[]';
    """,
)
"""From nothing to the newest version; a released step is never edited."""

LAYOUT = Layout("an agency", APPLICATION_ID, STEPS, unmarked=True)


Setting = TypeVar("Setting", Budget, Policy, RunCeiling)
LAYERS: Mapping[type[Wire], tuple[str, str]] = {
    Budget: ("budget", "agency_budget"),
    Policy: ("policy", "agency_policy"),
    RunCeiling: ("limits", "agency_limits"),
}
"""Where the owner's layer is, and the agency's. What was set before there were two is the owner's."""

Section = tuple[str, JsonValue]
"""A section of a blueprint's configuration, by its name."""


class StoredProvider(NamedTuple):
    name: str
    entry: Provider
    set_by: Layer
    created_at: str
    updated_at: str


_MADE_AS = "made_as"
"""The digest of what was asked for when the agency was made."""
STAMP = "blueprints_stamp"
"""Another one after each change of a blueprint: hosts look at it."""
_NEW_STAMP = (f"REPLACE INTO meta VALUES ('{STAMP}', lower(hex(randomblob(8))))", ())


class AgencyStore:
    def __init__(self, file: AgencyFile) -> None:
        self.file = file
        self._path = file.path

    @classmethod
    def open(cls, path: Path, storage: Storage, create: AgencyInfo | None = None) -> AgencyStore:
        if create is None and not path.exists():
            raise no_agency(path.parent.name)
        (path.parent / "threads").mkdir(parents=True, exist_ok=True)
        with sqlite.store_errors("open", path):
            db = sqlite.connect(path, any_thread=storage.shared)
            try:
                if create is None and sqlite.version_of(db, path, LAYOUT) == 0:
                    raise _empty(path)
                sqlite.use_journal(db, storage)
                sqlite.use_sync(db, storage.synchronous)
                _prepare(db, path, create)
            except BaseException:
                db.close()
                raise
        return cls(AgencyFile(db, path, storage))

    def close(self) -> None:
        self.file.close()

    def write(self, *statements: tuple[str, Sequence[str | int | None]]) -> None:
        """All of them, or none."""
        self.file.write(*statements)

    def transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        """All that the block writes, or nothing. It must not await."""
        return self.file.transaction()

    def rows(self, sql: str, params: Sequence[str | int] = ()) -> list[Any]:
        return self.file.rows(sql, params)

    def page(self, sql: str, params: Sequence[str | int], limit: int, most: int) -> Page:
        return self.file.page(sql, params, limit, most)

    # The agency itself.

    def info(self) -> AgencyInfo:
        return info_of(self.rows("SELECT key, value FROM meta"), self._path)

    def check_made_as(self, info: AgencyInfo) -> None:
        """Refuse a request for an agency of this id that asks for another one than this."""
        rows = self.rows("SELECT value FROM meta WHERE key = ?", (_MADE_AS,))
        check_repeated(rows[0][0] if rows else None, request_digest(name=info.name))

    def rename(self, name: str) -> None:
        self.write(("REPLACE INTO meta VALUES ('name', ?)", (name,)))

    # What the owner and the agency have set.

    def layers(self, kind: type[Setting]) -> Layers[Setting]:
        """What the owner has set, and what the agency has."""
        found = dict(self.rows("SELECT key, value FROM meta WHERE key IN (?, ?)", LAYERS[kind]))
        return layers_of(kind, found)

    def set_layer(self, setting: Budget | Policy | RunCeiling, whose: Layer) -> None:
        owners, agencys = LAYERS[type(setting)]
        key = owners if whose == "owner" else agencys
        self.write(("REPLACE INTO meta VALUES (?, ?)", (key, setting.model_dump_json())))

    # Providers.

    def providers(self) -> list[StoredProvider]:
        rows = self.rows("SELECT name, body, set_by, created_at, updated_at FROM providers ORDER BY name")
        return [StoredProvider(name, Provider.model_validate_json(body), *more) for name, body, *more in rows]

    def put_provider(self, name: str, entry: Provider, at: str, set_by: Layer = "owner") -> None:
        sql = (
            "INSERT INTO providers VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
            "body = excluded.body, updated_at = excluded.updated_at, set_by = excluded.set_by"
        )
        self.write((sql, (name, entry.model_dump_json(), at, at, set_by)))

    def drop_provider(self, name: str) -> None:
        self.write(("DELETE FROM providers WHERE name = ?", (name,)))

    # Blueprints.

    def blueprint(self, name: str) -> Blueprint | None:
        rows = self.rows("SELECT body FROM blueprints WHERE name = ?", (name,))
        return Blueprint.model_validate_json(rows[0][0]) if rows else None

    def put_blueprint(self, blueprint: Blueprint, at: str, vouched: Sequence[Section] = ()) -> None:
        """`vouched` are all the sections of it that the owner has set."""
        sql = (
            "INSERT INTO blueprints VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
            "body = excluded.body, updated_at = excluded.updated_at, vouched = excluded.vouched"
        )
        row = (blueprint.name, blueprint.model_dump_json(), at, at, to_json(list(vouched)).decode())
        self.write((sql, row), _NEW_STAMP)

    def vouched(self, name: str) -> list[Section]:
        """The sections of a blueprint that the owner has set."""
        rows = self.rows("SELECT vouched FROM blueprints WHERE name = ?", (name,))
        return [(section, said) for section, said in from_json(rows[0][0])] if rows else []

    def drop_blueprint(self, name: str) -> None:
        self.write(("DELETE FROM blueprints WHERE name = ?", (name,)), _NEW_STAMP)

    # Keys.

    def add_key(self, key: KeyInfo, digest: str) -> None:
        """Adding it again changes nothing."""
        row = (key.id, key.name, key.role, digest, key.created_at)
        self.write(("INSERT OR IGNORE INTO keys VALUES (?, ?, ?, ?, ?)", row))

    def keys(self, after: str, limit: int, most: int) -> tuple[list[KeyInfo], bool]:
        """A page of keys by their ids, and whether there are more."""
        sql = "SELECT id, name, role, created_at FROM keys WHERE id > ? ORDER BY id LIMIT ?"
        found = self.page(sql, (after,), limit, most)
        return [_key(row) for row in found.rows], found.more

    def key(self, key_id: str) -> tuple[KeyInfo, str] | None:
        """A key, and the digest of its secret."""
        rows = self.rows("SELECT id, name, role, created_at, digest FROM keys WHERE id = ?", (key_id,))
        return (_key(rows[0][:4]), str(rows[0][4])) if rows else None

    def drop_key(self, key_id: str) -> None:
        self.write(("DELETE FROM keys WHERE id = ?", (key_id,)))

    # Threads.

    def add_thread(self, creation: Creation) -> Creation:
        """Register a thread that is about to be made. Doing it again changes nothing, and gives it as it was."""
        meta = creation.metadata
        parent = meta.parent.thread_id if meta.parent is not None else None
        sql = (
            "INSERT OR IGNORE INTO threads (id, parent, state, metadata, creation, status, digest) "
            "VALUES (?, ?, 'new', ?, ?, 'registered', ?)"
        )
        row = (meta.id, parent, meta.model_dump_json(), creation.model_dump_json(), creation.digest)
        self.write((sql, row))
        return creation.model_copy(update={"metadata": self.thread(meta.id) or meta})

    def thread_digest(self, thread_id: str) -> str | None:
        """What was asked for when a thread was made; None if there is none, or an earlier release has made it."""
        rows = self.rows("SELECT digest FROM threads WHERE id = ?", (thread_id,))
        return rows[0][0] if rows else None

    def creation(self, thread_id: str) -> Creation | None:
        """How a thread is to be made that has not been made yet."""
        rows = self.rows("SELECT creation FROM threads WHERE id = ? AND state = 'new'", (thread_id,))
        return Creation.model_validate_json(rows[0][0]) if rows else None

    def thread_made(self, thread_id: str) -> None:
        sql = "UPDATE threads SET state = 'ready', creation = NULL WHERE id = ? AND state = 'new'"
        self.write((sql, (thread_id,)))

    def thread(self, thread_id: str) -> ThreadMetadata | None:
        rows = self.rows("SELECT metadata FROM threads WHERE id = ? AND state <> 'deleting'", (thread_id,))
        return ThreadMetadata.model_validate_json(rows[0][0]) if rows else None

    def summary(self, thread_id: str) -> ThreadSummary | None:
        rows = self.rows(f"SELECT {_SUMMARY} FROM threads WHERE id = ? AND state <> 'deleting'", (thread_id,))
        return _summary(rows[0]) if rows else None

    def threads(
        self, after: int, limit: int, most: int, *, newest_first: bool = False, **wanted: str | tuple[str, ...] | None
    ) -> tuple[list[tuple[int, ThreadSummary]], bool]:
        """A page of threads with their places in the registry, and whether there are more. `wanted` filters: a column,
        and the value or one of the values that it must have."""
        given = {c: (each,) if isinstance(each, str) else each for c, each in wanted.items() if each is not None}
        where = "".join(f" AND {column} IN ({','.join('?' * len(values))})" for column, values in given.items())
        values = [value for some in given.values() for value in some]
        beyond, order = ("<", "DESC") if newest_first else (">", "ASC")
        start = after if after or not newest_first else 2**63 - 1
        sql = (
            f"SELECT seq, {_SUMMARY} FROM threads WHERE seq {beyond} ? AND state <> 'deleting'{where} "
            f"ORDER BY seq {order} LIMIT ?"
        )
        found = self.page(sql, (start, *values), limit, most)
        return [(seq, _summary(row)) for seq, *row in found.rows], found.more

    def counts(self) -> dict[str, int]:
        """How many threads are in each status. The two queries read indexes only."""
        found = dict(self.rows("SELECT status, count(*) FROM threads GROUP BY status"))
        leaving = "SELECT status, count(*) FROM threads WHERE state = 'deleting' AND state <> 'ready' GROUP BY status"
        for status, gone in self.rows(leaving):
            found[status] -= gone
        return found

    def unmade(self) -> list[Creation]:
        rows = self.rows("SELECT creation FROM threads WHERE state = 'new' ORDER BY seq")
        return [Creation.model_validate_json(body) for (body,) in rows]

    def mark_deleting(self, thread_id: str) -> None:
        """Mark a thread and all its descendants: they are to be deleted."""
        sql = (
            "WITH RECURSIVE family (id) AS (SELECT ? UNION SELECT threads.id FROM threads JOIN family "
            "ON threads.parent = family.id) UPDATE threads SET state = 'deleting' WHERE id IN (SELECT id FROM family)"
        )
        self.write((sql, (thread_id,)), (_CALL_OFF, ()))

    def mark_all_deleting(self) -> None:
        """Mark the agency itself with all its threads: they are to be deleted."""
        self.write(("REPLACE INTO meta VALUES ('deleting', 1)", ()), ("UPDATE threads SET state = 'deleting'", ()))

    @property
    def is_deleting(self) -> bool:
        return bool(self.rows("SELECT 1 FROM meta WHERE key = 'deleting'"))

    def deleting(self) -> list[ThreadMetadata]:
        rows = self.rows("SELECT metadata FROM threads WHERE state = 'deleting' ORDER BY seq")
        return [ThreadMetadata.model_validate_json(body) for (body,) in rows]

    def forget_unmade(self, thread_id: str) -> bool:
        """Whether there was a thread of that id that had not been made yet."""
        found = bool(self.rows("SELECT 1 FROM threads WHERE id = ? AND state = 'new'", (thread_id,)))
        self.write(("DELETE FROM threads WHERE id = ? AND state = 'new'", (thread_id,)))
        return found

    def children_at_work(self, parent: str, most: int) -> int:
        """How many of a thread's children have not ended. Only the latest `2 * most` are looked at."""
        latest = "SELECT status FROM threads WHERE parent = ? ORDER BY seq DESC LIMIT ?"
        sql = f"SELECT count(*) FROM ({latest}) WHERE status IN ('registered', 'running', 'paused')"
        return int(self.rows(sql, (parent, 2 * most))[0][0])

    def is_being_deleted(self, thread_id: str) -> bool:
        return bool(self.rows("SELECT 1 FROM threads WHERE id = ? AND state = 'deleting'", (thread_id,)))

    def forget_thread(self, thread_id: str) -> None:
        self.write(("DELETE FROM threads WHERE id = ?", (thread_id,)))


def _prepare(db: sqlite3.Connection, path: Path, create: AgencyInfo | None) -> None:
    """Bring the file to the newest version, and write the agency's id and name if it is being created."""
    if sqlite.version_of(db, path, LAYOUT) == len(STEPS) and create is None:
        return
    with Transaction(db, path, "open"):
        version = sqlite.version_of(db, path, LAYOUT)  # again, now that no other process can write
        if version < len(STEPS):
            sqlite.take_steps(db, LAYOUT, version)
        if create is not None:
            made = {"id": create.id, "name": create.name, "created_at": create.created_at}
            rows = [*made.items(), (_MADE_AS, request_digest(name=create.name))]
            db.executemany("INSERT OR IGNORE INTO meta VALUES (?, ?)", rows)


def is_empty(error: sqlite3.Error, path: Path) -> bool:
    """Whether an agency's file could not be read because nothing is left in it."""
    return "no such table" in str(error) and was_more(path)


def was_more(path: Path) -> bool:
    """An agency's file that holds nothing is just being made, unless there are threads beside it."""
    return any((path.parent / "threads").glob("*.db"))


def _empty(path: Path) -> AgencyError:
    return Damaged(f"{path} is empty") if was_more(path) else no_agency(path.parent.name)


_CALL_OFF = """
    UPDATE schedule_runs SET status = 'canceled', error = 'the thread was deleted'
    WHERE status IN ('starting', 'started') AND thread IN (SELECT id FROM threads WHERE state = 'deleting')
"""
"""No host will report how the run of a deleted thread ends, so schedules stop waiting for it now."""


def info_of(rows: Sequence[Sequence[JsonValue]], path: Path) -> AgencyInfo:
    found = {str(key): str(value) for key, value in rows}
    if "id" not in found or "deleting" in found:
        raise no_agency(path.parent.name)
    budget = layers_of(Budget, found)
    return AgencyInfo(
        id=found["id"],
        name=found["name"],
        created_at=found["created_at"],
        budget=budget.agency.within(budget.owner),
    )


def layers_of(kind: type[Setting], found: Mapping[str, str]) -> Layers[Setting]:
    """What the owner and the agency have set, from rows of the agency's file."""
    owners, agencys = (kind.model_validate_json(found.get(key, "{}")) for key in LAYERS[kind])
    return Layers(owner=owners, agency=agencys)


_SUMMARY = "metadata, status, reason, head, updated_at, coalesce(renamed, nullif(title, '')), spent, children"


def _summary(row: Sequence[Any]) -> ThreadSummary:
    body, status, reason, head, updated_at, title, *bodies = row
    metadata = from_json(body)
    spent, children = (Spent.model_validate_json(each) for each in bodies)
    total = spent + children
    known = {
        "status": status,
        "reason": reason,
        "seq": head,
        "title": title,
        "updatedAt": metadata["createdAt"] if updated_at is None else timestamp(updated_at),
        "tokensUsed": total.usage,
        "costUsd": total.cost_usd,
        "children": Part(tokens_used=children.usage, cost_usd=children.cost_usd),
    }
    return ThreadSummary.model_validate({**metadata, **known})


def _key(row: Sequence[str]) -> KeyInfo:
    return KeyInfo.model_validate(dict(zip(("id", "name", "role", "created_at"), row, strict=True)))
