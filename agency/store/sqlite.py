"""SQLite as every store here uses it: a thread's file (`store.py`) and an agency's file (`actors/agency/store.py`).

It opens connections, sets the pragmas for local and shared storage, runs one transaction, brings a file to its newest
version, and turns what sqlite3 raises into `StoreError`. It knows no table and keeps nothing in memory: what a commit
means is up to the store that makes it.

The one idea: durability is decided in one place, by `Storage`. No other module may set a journal mode, or how a commit
is synced, except to what `Storage` says.
"""

from __future__ import annotations

import errno
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

from agency.errors import Damaged, NewerStore, StorageFull, StoreError

BUSY_SECONDS = 10.0
"""How long a connection waits for the lock of another one."""
JOURNAL_ATTEMPTS = 100
JOURNAL_DELAY = 0.01
CACHED_STATEMENTS = 128  # sqlite3's own default

Mode = Literal["rwc", "rw", "ro&immutable=1"]
"""SQLite's words: create the file if it is missing; open it only if it exists; read it as if it could not change."""


@dataclass(frozen=True, slots=True)
class Storage:
    """What the files lie on.

    `synchronous` is SQLite's: NORMAL survives the death of any process, FULL also that of the machine's power. `shared`
    is for a file system that several machines mount: WAL needs memory that all processes with the file open share, so a
    rollback journal takes its place, and every commit is synced. There NORMAL survives the loss of any of these
    machines, and FULL also that of the file server's power (docs/decisions/0028).
    """

    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
    shared: bool = False

    @property
    def journal(self) -> Literal["WAL", "TRUNCATE"]:
        return "TRUNCATE" if self.shared else "WAL"

    @property
    def first_sync(self) -> Literal["OFF", "NORMAL", "FULL"]:
        """For the first commit to a new WAL or a new file. SQLite would sync the header of a WAL; where NORMAL is
        enough, that adds nothing but a wait."""
        return "OFF" if self.synchronous == "NORMAL" and not self.shared else self.synchronous


LOCAL = Storage()


# Connections.


def connect(
    path: Path, mode: Mode = "rwc", *, any_thread: bool = False, cached_statements: int = CACHED_STATEMENTS
) -> sqlite3.Connection:
    """A connection without transactions of its own: only `Transaction` begins one. With `any_thread`, the caller makes
    sure that only one thread uses it at a time."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=not any_thread,
        cached_statements=cached_statements,
        timeout=BUSY_SECONDS,
    )


def use_journal(db: sqlite3.Connection, storage: Storage) -> None:
    """Set the journal mode. Two processes that open a new file at once fail each other here, and SQLite's busy timeout
    does not cover it, so this waits and tries again."""
    for attempt in range(JOURNAL_ATTEMPTS):
        try:
            (got,) = db.execute(f"PRAGMA journal_mode = {storage.journal}").fetchone()
            if got.upper() == storage.journal:
                return
            raise sqlite3.OperationalError(f"the journal mode stays {got}")
        except sqlite3.OperationalError:
            if attempt == JOURNAL_ATTEMPTS - 1:
                raise
            time.sleep(JOURNAL_DELAY)


def use_sync(db: sqlite3.Connection, sync: Literal["OFF", "NORMAL", "FULL"]) -> None:
    db.execute(f"PRAGMA synchronous = {sync}")


@contextmanager
def store_errors(doing: str, path: Path) -> Iterator[None]:
    """Raise what sqlite3 raises as a `StoreError` that names what could not be done, and to which file."""
    try:
        yield
    except sqlite3.Error as error:
        raise refused(doing, path, error) from error


def refused(doing: str, path: Path, error: sqlite3.Error) -> StoreError:
    if path.is_dir():
        return Damaged(f"cannot {doing} {path}: there is a folder in the place of the file")
    return _kind(error)(f"cannot {doing} {path}: {error}")


def as_store_error(error: sqlite3.Error | OSError) -> StoreError | None:
    """What an error says of the storage or of a file, wherever it was raised; None if it says nothing of them."""
    if isinstance(error, OSError):
        return StorageFull(f"cannot write: {error}") if error.errno in _NO_ROOM else None
    kind = _kind(error)
    return None if kind is StoreError and _primary(error) not in _PASSING else kind(f"cannot use a file: {error}")


def is_damage(error: BaseException) -> bool:
    """Whether it was raised because a file is damaged."""
    return isinstance(error, Damaged) or (isinstance(error, sqlite3.Error) and issubclass(_kind(error), Damaged))


_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})
_PASSING = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})
_UNWRITTEN = frozenset(
    {
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR_FSYNC,
        sqlite3.SQLITE_IOERR_DIR_FSYNC,
        sqlite3.SQLITE_IOERR_TRUNCATE,
        sqlite3.SQLITE_IOERR_SHMSIZE,
        sqlite3.SQLITE_IOERR_SHMOPEN,
    }
)
_TORN = frozenset({sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_CANTOPEN_ISDIR})


def _kind(error: sqlite3.Error) -> type[StoreError]:
    """What is wrong, by SQLite's code. An old file that was moved away under a connection is read-only for it, too."""
    code, primary = getattr(error, "sqlite_errorcode", 0), _primary(error)
    if primary == sqlite3.SQLITE_FULL or code in _UNWRITTEN:
        return StorageFull
    if primary == sqlite3.SQLITE_READONLY and code != sqlite3.SQLITE_READONLY_DBMOVED:
        return StorageFull
    undecodable = isinstance(error, sqlite3.OperationalError) and str(error).startswith("Could not decode")
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or code in _TORN or undecodable:
        return Damaged
    return StoreError


def _primary(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


# Transactions.

CommitHook = Callable[[Literal["before", "after"]], None]

commit_hook: CommitHook | None = None
"""Called around every transaction of every store, so that tests can have the process die there."""


class Transaction:
    """Commit all that the block writes, or nothing if it raises.

    It takes the write lock first (IMMEDIATE), so what the block reads, such as the epoch, is still true at its commit.
    A class, because every result of every run passes here, and `@contextmanager` costs a measurable part of a commit.
    """

    __slots__ = ("_db", "_doing", "_path")

    def __init__(self, db: sqlite3.Connection, path: Path, doing: str = "write") -> None:
        self._db = db
        self._path = path
        self._doing = doing

    def __enter__(self) -> sqlite3.Connection:
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise refused(self._doing, self._path, error) from error
        return self._db

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                commit(self._db)
        except BaseException as failed:
            self._fail(failed)
            raise
        if error is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._db.in_transaction:  # a commit that failed may have been rolled back already
            self._db.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error):
            raise refused(self._doing, self._path, error) from error


@contextmanager
def joined(db: sqlite3.Connection) -> Iterator[bool]:
    """Write as part of a transaction that stays open, all of it or nothing. Gives whether it begins one: if the block
    raises then, there is none."""
    begins = not db.in_transaction
    db.execute("BEGIN IMMEDIATE" if begins else "SAVEPOINT part")
    try:
        yield begins
        if not begins:
            db.execute("RELEASE part")
    except BaseException:
        if db.in_transaction:  # some errors roll all of it back
            for undo in ("ROLLBACK",) if begins else ("ROLLBACK TO part", "RELEASE part"):
                db.execute(undo)
        raise


def commit(db: sqlite3.Connection) -> None:
    """Commit, and let tests have the process die before or after it."""
    if commit_hook is not None:
        commit_hook("before")
    db.execute("COMMIT")
    if commit_hook is not None:
        commit_hook("after")


# Versions.


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables of one kind of file, as the steps from nothing to the newest version.

    A step, once released, is never edited: old files must open for ever. `PRAGMA user_version` is the number of steps
    that a file has taken; `PRAGMA application_id` marks whose kind it is.
    """

    owner: str
    """Whose file it is, for messages: `a thread`, `an agency`."""
    application_id: int
    steps: tuple[str, ...]
    refusal: type[Damaged] = Damaged
    """Raised for a file of another kind."""
    unmarked: bool = False
    """Whether a file that has tables and no `application_id` is taken for one of this kind."""


def version_of(db: sqlite3.Connection, path: Path, layout: Layout) -> int:
    """The file's version; 0 is an empty file. Refuses, without touching it, a file of another kind or a newer one."""
    snapshot = not db.in_transaction  # another process may be creating it right now: read all three at one moment
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
        refusal = layout.refusal if _kind(error) is Damaged else _kind(error)
        raise refusal(f"{path} is not {layout.owner}'s file, or is damaged: {error}") from error
    unmarked_is_foreign = not layout.unmarked and (tables or version)
    if application != layout.application_id and (application or unmarked_is_foreign):
        raise layout.refusal(f"{path} is an SQLite file, but not {layout.owner}'s")
    newest = len(layout.steps)
    if version > newest:
        raise NewerStore(
            f"{path} has version {version} and this release knows up to {newest}: "
            "open it with the release that wrote it, or a newer one"
        )
    return int(version)


def take_steps(db: sqlite3.Connection, layout: Layout, version: int) -> None:
    """Bring a file from a version to the newest. The caller has begun the transaction, so it is all or nothing."""
    for step in layout.steps[version:]:
        for statement in step.split(";"):
            if statement.strip():
                db.execute(statement)
    db.execute(f"PRAGMA user_version = {len(layout.steps)}")
    db.execute(f"PRAGMA application_id = {layout.application_id}")
