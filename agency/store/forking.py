"""Forks: a new thread's file that begins as another thread's was after one of its events.

The original is read as it is at one moment, wherever it is and whatever it does, and nothing of it is changed. All work
is done on a copy, which appears in its place at once when it is right: there is a fork, or there is none. Making one
that was cut short can be done again.

A commit is the smallest step there is. After an event in its middle, everything else that it wrote is there, too. A run
that was in progress ends in the fork as canceled: what it waited for will come to the original, and not here. What the
fork writes of itself is its own first commit, so a fork of the fork at an earlier event equals a fork of the original
there.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from agency import events
from agency.clock import now_ms
from agency.errors import InvalidInput, NotFound, StoreError, WrongState
from agency.events import timestamp
from agency.metadata import ForkInfo, ThreadMetadata
from agency.store import history, schema, sqlite
from agency.store.cut_run import FORKED, CutRun, cut_run, last_run
from agency.store.peek import holds_thread, look
from agency.store.sqlite import LOCAL, Storage
from agency.store.store import ADD_EVENT, ADD_MESSAGE, ORDER, event_row, stored_message
from agency.turn.outgoing import outcome_event
from agency.wire import Wire

_LEFT_BEHIND = ("inbox", "outbox", "timers", "effects", "surface", "requests", "waits", "asides", "tokens")
"""What waits for others or is waited for: that stays the original's."""

OWN_EVENTS = 2
"""With so many at most a fork begins: that it was made, and that a run was cut."""

_MESSAGE = """
    SELECT seq, {at}, EXISTS (SELECT 1 FROM messages AS earlier WHERE earlier.seq < messages.seq AND {same})
    FROM messages WHERE json_extract(body, '$.id') = ?
    AND json_extract(body, '$.role') = 'user' AND json_extract(body, '$.origin') IS NULL
"""

_SAID = "SELECT 1 FROM messages WHERE json_extract(body, '$.role') = 'user'"
"""A fork before its first message is about whatever is said in it."""

_KEPT = "SELECT coalesce(max(seq), 0) FROM messages WHERE at < ?1 AND (?2 IS NULL OR seq < ?2)"


class Cut(Wire):
    """Where a fork leaves its original."""

    seq: int
    """The last event that it has."""
    before: int | None = None
    """The number of a message: that one and those after it are left out, whatever their commit."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a fork is to be made of."""

    metadata: ThreadMetadata
    blueprint: str
    """As JSON."""
    cut: Cut

    def fork(self, thread_id: str) -> ThreadMetadata:
        """A new thread without a parent, even if the original has one."""
        fork = ForkInfo(thread_id=self.metadata.id, seq=self.cut.seq)
        new = {"id": thread_id, "created_at": timestamp(now_ms()), "parent": None, "forked_from": fork}
        return self.metadata.model_copy(update=new)


# Finding out where to cut.


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a file says; `message` are the number of the one that was asked for, its `at`, and whether its commit has
    others before it."""

    metadata: str
    blueprint: str
    last: int
    since: int
    message: tuple[int, int, bool] | None


def find_origin(path: Path, *, after: int | None = None, before: str | None = None) -> Origin:
    """A thread as it was after an event, or before a user's message; with neither, as it is now."""
    if after is not None and before is not None:
        raise InvalidInput("a fork begins after an event or before a message: name one of the two")
    try:
        facts = look(path, lambda db: _facts(db, path, before))
    except sqlite3.Error as error:
        if not path.exists():
            raise NotFound(f"there is no thread {path.stem!r}") from error
        raise sqlite.refused("read", path, error) from error
    if facts is None:
        raise NotFound(f"there is no thread {path.stem!r}")
    cut = Cut(seq=facts.last if after is None else after) if before is None else _cut_before(before, facts)
    if not 1 <= cut.seq <= facts.last:
        raise InvalidInput(f"there is no event {cut.seq} to fork after: they are numbered 1 to {facts.last}")
    if cut.seq < facts.since:
        raise WrongState(
            f"what the thread was before event {facts.since} is not known, because an earlier release wrote it: "
            f"fork it after {facts.since} or later"
        )
    metadata = ThreadMetadata.model_validate_json(facts.metadata)
    return Origin(metadata, facts.blueprint, cut)


def _facts(db: sqlite3.Connection, path: Path, message: str | None) -> _Facts | None:
    version = schema.check(db, path)
    if version == 0:
        return None
    db.execute("BEGIN")  # all of it as it was at one moment
    meta = dict(db.execute("SELECT key, value FROM meta"))
    (last,) = db.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
    if not last:
        return None
    knows = version >= schema.HISTORY
    asked = _MESSAGE.format(at="at" if knows else "0", same="earlier.at = messages.at" if knows else "0")
    found = None if message is None else db.execute(asked, (message,)).fetchone()
    since = history.known_since(db) if knows else last
    return _Facts(meta["metadata"], meta["blueprint"], last, since, found)


def _cut_before(message: str, facts: _Facts) -> Cut:
    """A message that began a run was the first of its commit: that one is left out. One that joined a run came with
    results: their commit stays, without the message."""
    if facts.message is None:
        raise InvalidInput(f"the thread has no message {message!r:.100} of a user")
    number, at, came_with_others = facts.message
    if at == 0:  # an earlier release did not write it down
        return Cut(seq=facts.since - 1)
    return Cut(seq=at + 1, before=number) if came_with_others else Cut(seq=at)


# Making it.


def make_fork(source: Path, target: Path, metadata: ThreadMetadata, cut: Cut, storage: Storage = LOCAL) -> None:
    """Make a fork's file, unless it is there."""
    if holds_thread(target):
        return
    for left_over in target.parent.glob(f".{target.name}.*"):
        left_over.unlink(missing_ok=True)
    new = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with closing(sqlite.connect(new, cached_statements=0)) as db:
            sqlite.use_sync(db, storage.first_sync)
            _copy(source, db)
            db.execute("PRAGMA journal_mode = MEMORY")
            db.execute("PRAGMA recursive_triggers = ON")
            db.execute("BEGIN IMMEDIATE")
            _cut_off(db, source, metadata, cut)
            sqlite.commit(db)
        if not holds_thread(target):
            os.link(new, target)  # all at once, and never over another's
    except FileExistsError:
        pass  # another process was faster
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot make {target}: {error}") from error
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            new.with_name(new.name + suffix).unlink(missing_ok=True)


def _copy(source: Path, db: sqlite3.Connection) -> None:
    try:
        look(source, lambda original: original.backup(db))
    except sqlite3.Error as error:
        if not source.exists():
            raise NotFound(f"thread {source.stem!r} is gone") from error
        raise


def _cut_off(db: sqlite3.Connection, source: Path, metadata: ThreadMetadata, cut: Cut) -> None:
    """Make of the copy of a thread what the fork begins with."""
    schema.migrate(db, schema.check(db, source))
    (last,) = db.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
    if not history.known_since(db) <= cut.seq <= last:
        raise NotFound(f"thread {source.stem!r} no longer has what it was after event {cut.seq}")
    (kept,) = db.execute(_KEPT, (cut.seq, cut.before)).fetchone()
    run = last_run(db, cut.seq, kept)
    ended = cut_run(db, run, cut.seq, kept)
    history.revert(db, cut.seq)
    for table, beyond in (("messages", kept), ("events", cut.seq)):
        db.execute(f"DELETE FROM {table} WHERE seq > ?", (beyond,))
    for table in _LEFT_BEHIND:
        db.execute(f"DELETE FROM {table}")
    for table in ("surfaces", "details"):
        db.execute(f"DELETE FROM {table} WHERE at >= ?", (cut.seq,))
    db.execute("DELETE FROM runs WHERE n > ?", (run,))
    _introduce(db, metadata, cut.seq)
    if ended is not None:
        _end_run(db, run, ended, cut.seq, kept)


# Its own first commit.


def _introduce(db: sqlite3.Connection, metadata: ThreadMetadata, seq: int) -> None:
    """It is another thread, has used nothing yet, and has no children that could report to it."""
    now, origin = now_ms(), metadata.forked_from
    own = {"thread_id": metadata.id, "metadata": metadata.model_dump_json(), "epoch": 0}
    db.executemany("REPLACE INTO meta VALUES (?, ?)", own.items())
    db.execute("DELETE FROM meta WHERE key IN ('spent', ?)", (ORDER,))
    db.execute(f"DELETE FROM meta WHERE key = 'title' AND NOT EXISTS ({_SAID})")
    db.execute("UPDATE children SET status = 'canceled', completed_at = ? WHERE status = 'waiting'", (now,))
    db.execute("DELETE FROM kv WHERE owner = 'person_waits'")
    db.execute("UPDATE children SET spent = NULL WHERE spent IS NOT NULL")
    created = events.thread_created(metadata.agent_type, None if origin is None else origin.model_dump(mode="json"))
    db.execute(ADD_EVENT, event_row(seq + 1, now, 0, created))


def _end_run(db: sqlite3.Connection, n: int, run: CutRun, seq: int, kept: int) -> None:
    db.execute("UPDATE runs SET status = 'canceled', machine = ? WHERE n = ?", (run.machine, n))
    for number, message in enumerate(run.results, kept + 1):
        db.execute(ADD_MESSAGE, (number, stored_message(message), seq))
    db.execute(ADD_EVENT, event_row(seq + 2, now_ms(), n, outcome_event(FORKED, run.by)))
