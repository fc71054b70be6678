"""One thread's file: SQLite in WAL mode, written by one activation at a time.

Commits run on the event loop's own thread. One takes some fifty microseconds; handing it to a worker thread costs more
than that (docs/decisions/0002). Whoever opens the file raises its `epoch`, and every commit checks that it is still
its own, in the same transaction: an activation that was overtaken gets `StaleActivation` and cannot write.

Events and messages get their `seq` here, counting from 1 without a gap. No commit reads any history.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from agency.clock import now_ms
from agency.errors import NotFound, StaleActivation, StoreError, WrongState
from agency.events import Event, EventType, timestamp
from agency.messages import Message
from agency.store import schema
from agency.store.draft import Draft, Row, Statement, Value

EVENT_TYPES = tuple(EventType)
"""Events are stored by their place in this list, so new types go to its end."""

_CODE = {event_type: code for code, event_type in enumerate(EVENT_TYPES)}

_ADD_MESSAGE = "INSERT INTO messages VALUES (?, ?)"
_ADD_EVENT = "INSERT INTO events VALUES (?, ?, ?, ?, ?)"
_ADD_TO_INBOX = "INSERT INTO inbox (body) VALUES (?)"

WAL_ATTEMPTS = 100

CommitHook = Callable[[Literal["before", "after"]], None]

commit_hook: CommitHook | None = None
"""Called around every transaction of every store, so that tests can have the process die there."""


class ThreadStore:
    def __init__(self, db: sqlite3.Connection, path: Path, epoch: int) -> None:
        self._db = db
        self._lock = threading.RLock()  # tools may query from worker threads
        self.path = path
        self.epoch = epoch
        self.closed = False
        self.thread_id = str(self.meta("thread_id") or "")
        self.last_seq = self._max("events")
        self.message_count = self._max("messages")
        self.inbox_count = self._max("inbox")
        """Not zero when something may be waiting in the inbox."""

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        create: Mapping[str, str] | None = None,
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
    ) -> ThreadStore:
        """Open a thread's file for writing, from now on for us alone.

        `create` holds the meta rows of a new thread; without it the file must exist.
        `synchronous` is SQLite's: NORMAL survives the death of any process, FULL also that of the machine's power.
        """
        path = Path(path)
        if create is None and not path.exists():
            raise NotFound(f"there is no thread at {path}; to create one, name its agent")
        try:
            db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256, timeout=10)
        except sqlite3.Error as error:
            raise StoreError(f"cannot open {path}: {error}") from error
        try:
            if schema.check(db, str(path)) == 0:
                if create is None:
                    raise NotFound(f"{path} holds no thread")
                db.execute(f"PRAGMA page_size = {schema.PAGE_SIZE}")
            _use_wal(db)
            db.execute(f"PRAGMA synchronous = {synchronous}")
            epoch = _take_over(db, path, create)
            return cls(db, path, epoch)
        except sqlite3.Error as error:
            db.close()
            raise StoreError(f"cannot open {path}: {error}") from error
        except BaseException:
            db.close()
            raise

    def close(self) -> None:
        self.closed = True
        if not self._lock.acquire(blocking=False):
            self._db.interrupt()  # a tool that was left behind is reading in its worker thread
            self._lock.acquire()
        try:
            self._db.close()
        finally:
            self._lock.release()

    def draft(self, run: int = 0) -> Draft:
        return Draft(self, run)

    def prepare_tables(self, tables: Mapping[str, tuple[str, ...]]) -> None:
        """Bring the tables that middleware keep in this file to their newest version."""
        steps = [step for owner, own in tables.items() for step in schema.missing_steps(self._db, owner, own)]
        if steps:
            self._write(steps)

    # Writing.

    def commit(self, draft: Draft) -> None:
        """Write a draft in one transaction. Once this returns, it is on disk and may be told to anybody."""
        ts = now_ms()
        statements = list(draft.statements)
        for seq, message in enumerate(draft.messages, self.message_count + 1):
            statements.append((_ADD_MESSAGE, (seq, stored_message(message))))
        for message in draft.posted:
            statements.append((_ADD_TO_INBOX, (stored_message(message),)))
        for seq, event in enumerate(draft.events, self.last_seq + 1):
            statements.append((_ADD_EVENT, (seq, ts, _CODE[event.type], draft.run, to_json(event.data).decode())))
        self._write(statements)
        self.message_count += len(draft.messages)
        self.last_seq += len(draft.events)
        self.inbox_count = len(draft.posted) + (0 if draft.takes_inbox else self.inbox_count)

    def _write(self, statements: Sequence[Statement]) -> None:
        db = self._db
        with self._lock:
            self._check_open()
            try:
                db.execute("BEGIN IMMEDIATE")
                (epoch,) = db.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchone()
                if epoch != self.epoch:
                    raise StaleActivation(f"{self.path} was opened by somebody else (epoch {epoch}, ours {self.epoch})")
                for sql, params in statements:
                    db.execute(sql, params)
                _commit(db)
            except BaseException as error:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise StoreError(f"cannot write {self.path}: {error}") from error
                raise

    # Reading.

    def query(self, sql: str, params: Sequence[Value] = (), staged: Sequence[Statement] = ()) -> list[Row]:
        """Read; with `staged`, read as if those statements had been committed. Whatever it does is rolled back."""
        with self._lock:
            self._check_open()
            if not staged:
                return self._db.execute(sql, params).fetchall()
            self._db.execute("BEGIN")
            try:
                for statement, values in staged:
                    self._db.execute(statement, values)
                return self._db.execute(sql, params).fetchall()
            finally:
                self._db.execute("ROLLBACK")

    def _check_open(self) -> None:
        if self.closed:
            raise WrongState(f"thread {self.thread_id} is closed")

    def meta(self, key: str) -> Value:
        rows = self.query("SELECT value FROM meta WHERE key = ?", (key,))
        return rows[0][0] if rows else None

    def messages(self, after: int = 0, upto: int | None = None) -> list[Message]:
        last = self.message_count if upto is None else upto
        rows = self.query("SELECT body FROM messages WHERE seq > ? AND seq <= ? ORDER BY seq", (after, last))
        return [Message.model_validate_json(str(body)) for (body,) in rows]

    def events(self, after: int = 0, limit: int = 1_000) -> list[Event]:
        with self._lock:
            self._check_open()
            rows = self._db.execute(
                "SELECT seq, ts, type, run, data FROM events WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit)
            ).fetchall()
        return [self._event(seq, ts, EVENT_TYPES[code], run, from_json(data)) for seq, ts, code, run, data in rows]

    def _event(self, seq: int, ts: int, event_type: EventType, run: int, data: dict[str, JsonValue]) -> Event:
        owner = {"runId": run_id(self.thread_id, run)} if run else {"threadId": self.thread_id}
        return Event(thread_id=self.thread_id, seq=seq, ts=timestamp(ts), type=event_type, data={**owner, **data})

    def _max(self, table: Literal["events", "messages", "inbox"]) -> int:
        return int(str(self.query(f"SELECT coalesce(max(seq), 0) FROM {table}")[0][0]))


def stored_message(message: Message) -> str:
    return message.model_dump_json(exclude_defaults=True)


def holds_thread(path: Path) -> bool:
    """Whether a file holds a thread: one whose first event is there. Looks without taking over."""
    return _peek(path, "SELECT EXISTS (SELECT 1 FROM events)")


def has_work(path: Path) -> bool:
    """Whether a thread should be woken: a run at work, messages, mail, or a timer. Looks without taking over."""
    running = "EXISTS (SELECT 1 FROM runs WHERE status = 'running')"
    left = " OR ".join(f"EXISTS (SELECT 1 FROM {table})" for table in ("inbox", "outbox", "timers"))
    return _peek(path, f"SELECT {running} OR {left}")


def _peek(path: Path, question: str) -> bool:
    try:
        # Not read-only: SQLite could not then recover a WAL whose index is missing.
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)
    except sqlite3.Error:
        return False
    try:
        return bool(db.execute(question).fetchone()[0])
    except sqlite3.Error:
        return False  # not a thread's file
    finally:
        db.close()


def run_id(thread_id: str, run: int) -> str:
    """A run's name for the outside: its thread and its number there."""
    return f"{thread_id}.{run}"


def _commit(db: sqlite3.Connection) -> None:
    if commit_hook is not None:
        commit_hook("before")
    db.execute("COMMIT")
    if commit_hook is not None:
        commit_hook("after")


def _use_wal(db: sqlite3.Connection) -> None:
    """Two who open a new file at once get in each other's way here, and SQLite does not wait by itself."""
    for attempt in range(WAL_ATTEMPTS):
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if attempt == WAL_ATTEMPTS - 1:
                raise
            time.sleep(0.01)


def _take_over(db: sqlite3.Connection, path: Path, create: Mapping[str, str] | None) -> int:
    """Bring the file to our version and make its next epoch ours, all in one transaction.

    Until its first event is there, a thread is being created, and whoever comes to create it begins anew.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        version = schema.check(db, str(path))  # again, now that nobody else can write
        schema.migrate(db, version)
        if not db.execute("SELECT EXISTS (SELECT 1 FROM events)").fetchone()[0]:
            if create is None:
                raise NotFound(f"{path} holds no thread")
            db.executemany("REPLACE INTO meta VALUES (?, ?)", create.items())
            db.execute("INSERT OR IGNORE INTO meta VALUES ('epoch', 0)")
        db.execute("UPDATE meta SET value = value + 1 WHERE key = 'epoch'")
        (epoch,) = db.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchone()
        _commit(db)
        return int(epoch)
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
