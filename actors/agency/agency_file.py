"""The file of an agency: its connection, how it is read, and how its commits end. It knows no table.

On local storage a transaction is on disk when its block ends. On shared storage, where a sync takes milliseconds, the
block leaves what it wrote in a transaction that stays open, and a worker thread commits that together with what was
written meanwhile (`agency.store.late_commits`); so operations that come at the same time share their syncs. Nothing is
told before it is on disk: `perform` keeps back an operation's answer and its refusal, and `DurableOrders` what it wants
done outside.

While a worker commits, the connection is its own. `perform` lets no step of an operation begin then, so operations
use the file as if it were always theirs.

If a commit fails, it fails for all whose writing it held: what they wrote is rolled back, and each of them is told, by
an error in the place of what it waits for. The agency goes on from what its file says.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from actors.agency.pages import Page, page_of
from actors.agency.steps import in_steps
from agency.errors import AgencyError
from agency.store import sqlite
from agency.store.late_commits import LateCommits
from agency.store.sqlite import Storage, Transaction

Value = TypeVar("Value")


class AgencyFile:
    def __init__(self, db: sqlite3.Connection, path: Path, storage: Storage) -> None:
        self.path = path
        self._db = db
        self._late = self._commits() if storage.shared else None
        self.writes = 0
        """How many transactions there were that a worker commits."""
        self._closed = False

    # Writing.

    def transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        """All that the block writes, or nothing. It must not await."""
        return Transaction(self._db, self.path) if self._late is None else self._staged(self._late)

    @contextmanager
    def _staged(self, late: LateCommits) -> Iterator[sqlite3.Connection]:
        others = self._db.in_transaction
        try:
            with sqlite.store_errors("write", self.path), sqlite.joined(self._db):
                yield self._db
        except BaseException as error:
            if others and not self._db.in_transaction:  # a disk without room takes back what others wrote, too
                late.lose(error)
            raise
        self.writes += 1
        late.applied(0)

    def write(self, *statements: tuple[str, Sequence[str | int | None]]) -> None:
        """All of them, or none."""
        with self.transaction() as db:
            for sql, params in statements:
                db.execute(sql, params)

    def _commits(self) -> LateCommits:
        return LateCommits(self._commit, self._lost, 0)

    def _commit(self) -> None:
        with sqlite.store_errors("write", self.path):
            if not self._db.in_transaction:
                return
            try:
                sqlite.commit(self._db)
            finally:
                self._roll_back()

    def _roll_back(self) -> None:
        """What could not be committed must not be committed later."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _lost(self, error: BaseException) -> None:
        """All that was not on disk yet is lost, and those who wrote it know; others may write from now on."""
        self._roll_back()
        self._late = self._commits()

    # Reading.

    def rows(self, sql: str, params: Sequence[str | int] = ()) -> list[Any]:
        return self._db.execute(sql, params).fetchall()

    def page(self, sql: str, params: Sequence[str | int], limit: int, most: int) -> Page:
        """So many of the rows, or fewer if these have so many bytes. What comes after them is not read. The statement
        ends with `LIMIT ?`."""
        with closing(self._db.execute(sql, (*params, limit + 1))) as cursor:
            return page_of(cursor, limit, most)

    # What is on disk.

    async def perform(self, operation: Coroutine[Any, Any, Value]) -> Value:
        """Do what uses the file between its awaits. It is told of, as an answer or as a refusal, once all that it wrote
        and all that it may have read is on disk."""
        if self._late is None:
            return await operation
        try:
            done = await in_steps(operation, _OperationPacer(self))
        except AgencyError:
            await self.durable()
            raise
        await self.durable()
        return done

    async def durable(self) -> None:
        """Return once all that is written by now is on disk; raises what keeps it from that."""
        if self._late is not None:
            await self._late.durable()

    async def quiet(self) -> None:
        """Return when no worker has the connection."""
        if self._late is not None:
            await self._late.quiet()

    def if_lost(self, lost: Callable[[BaseException], None]) -> None:
        """Call `lost` with what keeps from disk what is written by now, should anything do so."""
        if self._late is not None:
            self._late.when_durable(_nothing, lost)

    # Ending.

    def close(self) -> None:
        """It takes its time on shared storage: what was written is committed."""
        if self._closed:
            return
        self._closed = True
        try:
            self._commit()
        finally:
            self._db.close()

    async def close_in_worker(self) -> None:
        """Close without keeping the event loop waiting for the disk."""
        if self._late is None:
            self.close()
        else:
            await self._late.close(self.close)


def _nothing() -> None:
    """Most that is written gets to disk."""


class _OperationPacer:
    """Lets an operation go on when its agency's file is quiet, and tells it if what it wrote is lost."""

    def __init__(self, file: AgencyFile) -> None:
        self._file = file
        self._writes = file.writes
        self._error: BaseException | None = None

    async def may_step(self) -> None:
        await self._file.quiet()
        self._writes = self._file.writes

    def trouble(self) -> BaseException | None:
        error, self._error = self._error, None
        return error

    def stepped(self) -> None:
        if self._file.writes != self._writes:
            self._file.if_lost(self._lose)

    def _lose(self, error: BaseException) -> None:
        self._error = error
