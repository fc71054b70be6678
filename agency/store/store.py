"""One thread's file: SQLite in WAL mode, written by one activation at a time.

Commits run on the event loop's own thread. One takes some fifty microseconds; handing it to a worker thread costs more
than that (docs/decisions/0002). On shared storage, where each is synced, a worker thread ends them (`late_commits`),
and what leaves the process waits until it is `durable`. Opening the file raises its `epoch`, and every commit checks,
in the same transaction, that it is still its own: an activation that was overtaken gets `StaleActivation` and cannot
write.

Events and messages get their `seq` here, counting from 1 without a gap. No commit reads any history.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import JsonValue, ValidationError
from pydantic_core import from_json, to_json

from agency.clock import now_ms
from agency.errors import Damaged, NotFound, StaleActivation, WrongState
from agency.events import Event, EventType, NewEvent, timestamp
from agency.messages import Message
from agency.store import history, schema, sqlite
from agency.store.draft import Draft, Row, Statement, Value
from agency.store.late_commits import LateCommits
from agency.store.new_file import begin_file
from agency.store.sqlite import LOCAL, Storage
from agency.titles import SET_TITLE, title_of

EVENT_TYPES = tuple(EventType)
"""Events are stored by their place in this list, so new types go to its end."""

_CODE = {event_type: code for code, event_type in enumerate(EVENT_TYPES)}

_ADD_TO_INBOX = "INSERT INTO inbox (body, timing, terms) VALUES (?, ?, ?)"
ORDER = "order"
"""The key under which a file has the number of the latest order to open it."""
ADD_MESSAGE = "INSERT INTO messages VALUES (?, ?, ?)"
ADD_EVENT = "INSERT INTO events VALUES (?, ?, ?, ?, ?)"

UNDO_TRIAL = ("ROLLBACK TO trial", "RELEASE trial")

RECENT = 64
"""So many of the latest events of a file with late commits can be read while a worker has its connection."""

EventRow = tuple[int, int, int, int, str]


class ThreadStore:
    def __init__(self, db: sqlite3.Connection, path: Path, epoch: int, storage: Storage) -> None:
        self._connection: sqlite3.Connection | None = db
        self._storage = storage
        self._lock = threading.RLock()  # tools may query from worker threads
        self.path = path
        self.epoch = epoch
        self.closed = False
        self.used = time.monotonic()
        self.thread_id = str(self.meta("thread_id") or "")
        self.last_seq = self._max("events")
        self.message_count = self._max("messages")
        self.inbox_count = int(str(self.query("SELECT count(*) FROM inbox")[0][0]))
        self.committed_at = 0
        """The time of the latest commit here."""
        self.title = self._title()
        """Of the thread; empty if it has none yet."""
        self.late: LateCommits | None = None
        """How commits end that take their time; None if each is on disk when `commit` returns."""
        self._recent: deque[EventRow] = deque(maxlen=RECENT)

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        create: Mapping[str, str] | None = None,
        tables: schema.Tables | None = None,
        storage: Storage = LOCAL,
        order: int = 0,
    ) -> ThreadStore:
        """Open a thread's file for writing, from now on for us alone.

        `order` is the number of the order to do so, where orders may arrive late: they grow, and `StaleActivation` is
        raised if a later one has come before this. 0 is none, and always counts.

        `create` holds the meta rows of a new thread; without it the file must exist. `tables` are those that it will be
        prepared for: a new file is made quicker with all of them at once.
        """
        path, made = Path(path), False
        if not path.exists():
            if create is None:
                raise _no_thread(f"there is no thread at {path}; to create one, name its agent")
            made = (
                begin_file(path, tables or {}, storage, lambda db: _claim(db, path, create, order)) and storage.shared
            )
        with sqlite.store_errors("open", path):
            db = _connect(path, "rwc")
            try:
                if schema.check(db, path) == 0:
                    if create is None:
                        raise _no_thread(f"{path} holds no thread")
                    db.execute(f"PRAGMA page_size = {schema.PAGE_SIZE}")
                sqlite.use_journal(db, storage)
                sqlite.use_sync(db, storage.first_sync)
                epoch = 1 if made else _take_over(db, path, create, order)
                sqlite.use_sync(db, storage.synchronous)
                return cls(db, path, epoch, storage)
            except BaseException:
                db.close()
                raise

    def close(self) -> None:
        """It takes its time: what was applied is committed, or a checkpoint is made."""
        self.closed = True
        if not self._lock.acquire(blocking=False):
            if (reading := self._connection) is not None:
                reading.interrupt()  # a tool that was left behind, in its worker thread
            self._lock.acquire()
        try:
            self._let_go()
        finally:
            self._lock.release()

    async def close_in_worker(self) -> None:
        """Close without keeping the event loop waiting for the disk."""
        if self.late is None:
            await asyncio.to_thread(self.close)
        else:
            await self.late.close(self.close)

    @property
    def is_open(self) -> bool:
        """Whether it holds its file now."""
        return self._connection is not None

    def doze(self) -> None:
        """Let go of the file, and of the hundred kilobytes that SQLite takes for it, until it is next used."""
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        if self._connection is None:
            return
        if self.late is not None:
            if self._connection.in_transaction and not self.closed:
                return
            self._commit_open()
        self._connection.close()
        self._connection = None

    @property
    def _db(self) -> sqlite3.Connection:
        """The connection, opened again if it was let go. Callers hold the lock."""
        self.used = time.monotonic()
        if self._connection is None:
            with sqlite.store_errors("reopen", self.path):
                db = _connect(self.path, "rw")
                sqlite.use_sync(db, self._storage.synchronous)
                self._connection = db
        return self._connection

    def draft(self, run: int = 0) -> Draft:
        return Draft(self, run)

    def prepare_tables(self, tables: schema.Tables) -> None:
        """Bring the tables that middleware keep in this file to their newest version."""
        with self._lock:
            if schema.is_prepared(self._db, tables):
                return
        self._transact(lambda db: schema.prepare(db, tables))

    # Writing.

    def commit(self, draft: Draft) -> None:
        """Write a draft in one transaction. Once this returns, it is on disk and may be published."""
        ts = now_ms()
        statements = list(draft.statements)
        title = (_title_set(statements) if draft.sets_title else None) or self.title
        if not title and draft.messages and (title := title_of(draft.messages)):
            statements.append((SET_TITLE, (title,)))
        if statements and not draft.events:
            statements.append((history.BELONGS_BEFORE, (self.last_seq,)))
        for seq, message in enumerate(draft.messages, self.message_count + 1):
            statements.append((ADD_MESSAGE, (seq, stored_message(message), self.last_seq)))
        for message, when, terms in draft.posted:
            statements.append((_ADD_TO_INBOX, (stored_message(message), when, terms)))
        rows = [event_row(seq, ts, draft.run, event) for seq, event in enumerate(draft.events, self.last_seq + 1)]
        statements += [(ADD_EVENT, row) for row in rows]
        self._write(statements)
        self.committed_at = ts
        self.title = title
        self.message_count += len(draft.messages)
        self.last_seq += len(draft.events)
        self.inbox_count += len(draft.posted) - (draft.taken or 0)
        if self.late is not None:
            self._recent += rows
            self.late.applied(self.last_seq)

    def _write(self, statements: Sequence[Statement]) -> None:
        def write(db: sqlite3.Connection) -> None:
            for sql, params in statements:
                db.execute(sql, params)

        if self.late is None:
            self._transact(write)
        else:
            self._apply(write)

    def _transact(self, write: Callable[[sqlite3.Connection], None]) -> None:
        """Write in one transaction; nothing at all if another activation has opened the file since."""
        with self._lock:
            self._check_open()
            with sqlite.Transaction(self._db, self.path) as db:
                self._check_epoch(db)
                write(db)

    def _apply(self, write: Callable[[sqlite3.Connection], None]) -> None:
        """Write in the open transaction, all or nothing; a worker commits it later."""
        with self._lock:
            self._check_open()
            db = self._db
            earlier = db.in_transaction
            try:
                with sqlite.store_errors("write", self.path), sqlite.joined(db) as begins:
                    if begins:  # no other activation can raise the epoch until this is committed
                        self._check_epoch(db)
                    write(db)
            except BaseException as error:
                if earlier and not db.in_transaction and self.late is not None:  # what was applied before is gone, too
                    self.late.lose(error)
                raise

    def _commit_open(self) -> None:
        """Commit what was applied. It takes its time."""
        with self._lock, sqlite.store_errors("write", self.path):
            db = self._connection
            if db is None or not db.in_transaction:
                return
            try:
                sqlite.commit(db)
            except BaseException:
                if db.in_transaction:  # what was applied is lost, and must not be written later
                    db.execute("ROLLBACK")
                raise

    def _check_epoch(self, db: sqlite3.Connection) -> None:
        (epoch,) = db.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchone()
        if epoch != self.epoch:
            raise StaleActivation(f"{self.path} was opened by another activation (epoch {epoch}, ours {self.epoch})")

    # What is on disk.

    def commit_late(self, failed: Callable[[BaseException], None]) -> None:
        """From now on, `commit` leaves the end of a commit to a worker thread. `failed` is told what keeps one from
        disk. For use within an event loop."""
        self.late = LateCommits(self._commit_open, failed, self.last_seq)

    def when_durable(self, then: Callable[[], None]) -> None:
        """Call `then` once all that is committed by now is on disk: at once, unless commits are late here."""
        if self.late is None:
            then()
        else:
            self.late.when_durable(then)

    async def durable(self) -> None:
        """Return once all that is committed by now is on disk."""
        if self.late is not None:
            await self.late.durable()

    async def quiet(self) -> None:
        """Return when the file can be used without waiting for a commit that is under way."""
        if self.late is not None:
            await self.late.quiet()

    @property
    def durable_seq(self) -> int:
        """Of the latest event that is on disk, and may be told of."""
        return self.last_seq if self.late is None else self.late.seq

    # Reading.

    def query(self, sql: str, params: Sequence[Value] = (), staged: Sequence[Statement] = ()) -> list[Row]:
        """Read; with `staged`, read as if those statements had been committed. Whatever it does is rolled back."""
        with self._lock:
            self._check_open()
            db = self._db
            try:
                if not staged:
                    return db.execute(sql, params).fetchall()
                begin, undo = ("SAVEPOINT trial", UNDO_TRIAL) if db.in_transaction else ("BEGIN", ("ROLLBACK",))
                db.execute(begin)
                try:
                    for statement, values in staged:
                        db.execute(statement, values)
                    return db.execute(sql, params).fetchall()
                finally:
                    if db.in_transaction:  # a disk without room has ended it already
                        for each in undo:
                            db.execute(each)
            except sqlite3.Error as error:
                raise self._refused(error) from error

    def _check_open(self) -> None:
        if self.closed:
            raise WrongState(f"thread {self.thread_id} is closed")

    def meta(self, key: str) -> Value:
        rows = self.query("SELECT value FROM meta WHERE key = ?", (key,))
        return rows[0][0] if rows else None

    def messages(self, after: int = 0, upto: int | None = None) -> list[Message]:
        last = self.message_count if upto is None else upto
        rows = self.query("SELECT body FROM messages WHERE seq > ? AND seq <= ? ORDER BY seq", (after, last))
        try:
            return [Message.model_validate_json(str(body)) for (body,) in rows]
        except ValidationError as error:
            raise Damaged(f"{self.path} is damaged: a message in it is none: {error}") from error

    def _refused(self, error: sqlite3.Error) -> Exception:
        """The storage's fault or the file's is told as such; what a query does wrong, as it is."""
        known = sqlite.as_store_error(error)
        return error if known is None else sqlite.refused("read", self.path, error)

    def events(self, after: int = 0, limit: int = 1_000) -> list[Event]:
        """Stored events after a seq. Those that are not on disk yet are left out."""
        if self.late is not None and self._recent and self._recent[0][0] <= after + 1:
            rows: Iterable[Row] = [row for row in self._recent if after < row[0] <= self.late.seq][:limit]
        else:
            rows = self.query(
                "SELECT seq, ts, type, run, data FROM events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
                (after, self.durable_seq, limit),
            )
        try:
            return [event_of(self.thread_id, *row) for row in rows]  # type: ignore[arg-type]  # STRICT columns
        except (ValueError, IndexError) as error:
            raise Damaged(f"{self.path} is damaged: an event in it is none: {error}") from error

    def _title(self) -> str:
        """As it is stored; of a file of an earlier release, what its first message gives."""
        if not self.message_count:
            return ""
        stored = self.meta("title")
        return str(stored) if stored is not None else title_in(self.query)

    def _max(self, table: Literal["events", "messages"]) -> int:
        return int(str(self.query(f"SELECT coalesce(max(seq), 0) FROM {table}")[0][0]))


_FIRST = """
    SELECT body FROM messages WHERE json_extract(body, '$.role') = 'user' AND json_extract(body, '$.origin') IS NULL
    ORDER BY seq LIMIT 1
"""


def _title_set(statements: Sequence[Statement]) -> str | None:
    """The title that a draft sets; None if what set it was undone."""
    return next((str(params[0]) for sql, params in reversed(statements) if sql == SET_TITLE), None)


def title_in(query: Callable[[str], Sequence[Row]]) -> str:
    """The title that the first message of a user in a file gives."""
    return title_of(Message.model_validate_json(str(body)) for (body,) in query(_FIRST))


def stored_message(message: Message) -> str:
    return message.model_dump_json(exclude_defaults=True)


def event_row(seq: int, ts: int, run: int, event: NewEvent) -> EventRow:
    """An event as it is stored."""
    return seq, ts, _CODE[event.type], run, to_json(event.data).decode()


def event_of(thread_id: str, seq: int, ts: int, code: int, run: int, data: str) -> Event:
    """An event as it is stored, as clients see it."""
    owner: dict[str, JsonValue] = {"runId": run_id(thread_id, run)} if run else {"threadId": thread_id}
    shown = {**owner, **from_json(data)}
    return Event(thread_id=thread_id, seq=seq, ts=timestamp(ts), type=EVENT_TYPES[code], data=shown)


def run_id(thread_id: str, run: int) -> str:
    """A run's name for the outside: its thread and its number there."""
    return f"{thread_id}.{run}"


def _no_thread(message: str) -> NotFound:
    return NotFound(message).telling("there is no such thread")


def _connect(path: Path, mode: sqlite.Mode) -> sqlite3.Connection:
    db = sqlite.connect(path, mode, any_thread=True, cached_statements=256)
    db.execute("PRAGMA recursive_triggers = ON")  # else what REPLACE removes is missing in the history
    return db


def _take_over(db: sqlite3.Connection, path: Path, create: Mapping[str, str] | None, order: int) -> int:
    """Bring the file to our version and make its next epoch ours, all in one transaction."""
    with sqlite.Transaction(db, path, "open"):
        schema.migrate(db, schema.check(db, path))  # checked again, now that no other process can write
        _claim(db, path, create, order)
        (epoch,) = db.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchone()
    return int(epoch)


def _claim(db: sqlite3.Connection, path: Path, create: Mapping[str, str] | None, order: int) -> None:
    """Make the next epoch ours. Until its first event is there, a thread is being created, and each activation that
    comes to create it begins anew."""
    if not db.execute("SELECT EXISTS (SELECT 1 FROM events)").fetchone()[0]:
        if create is None:
            raise _no_thread(f"{path} holds no thread")
        db.executemany("REPLACE INTO meta VALUES (?, ?)", create.items())
        db.execute("INSERT OR IGNORE INTO meta VALUES ('epoch', 0)")
    if order:
        _check_latest(db, path, order)
    db.execute("UPDATE meta SET value = value + 1 WHERE key = 'epoch'")


def _check_latest(db: sqlite3.Connection, path: Path, order: int) -> None:
    """Refuse an order that comes after a later one."""
    known = db.execute(f"SELECT value FROM meta WHERE key = '{ORDER}'").fetchone()
    if known is not None and known[0] > order:
        raise StaleActivation(f"{path} was opened by order {known[0]}, and this is order {order}")
    db.execute("REPLACE INTO meta VALUES (?, ?)", (ORDER, order))
