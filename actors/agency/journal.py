"""An agency's index and journal: what each of its threads is doing, and in which order their events came.

A row of the journal says that some events of a thread came next: `n` is the number of the first of them among all of
the agency's events. Rows follow each other without a gap, and so do the rows of one thread. So every stored event of an
agency has a number of its own, its cursor, though it is stored nowhere but in its thread's file.

A thread's `head` is the last of its events that the journal has. It moves with the journal, in one transaction, and
only up; so the same update may come any number of times. What threads have used goes with it (`accounts`), and that a
run has ended which a schedule had started (`schedules`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from actors.agency import accounts, schedules
from actors.agency.store import AgencyStore
from actors.updates import ThreadUpdate

ROWS_MOST = 1_000

_KNOWN = """
    SELECT seq, head FROM threads
    WHERE id = ? AND state <> 'deleting' AND json_extract(metadata, '$.createdAt') <= ?
"""
_STANDS = "UPDATE threads SET head = ?, status = ?, reason = ?, updated_at = ?, title = ? WHERE seq = ?"
_END = "SELECT n + last - first FROM journal ORDER BY n DESC LIMIT 1"
_PAGE = """
    SELECT n, coalesce(id, ''), coalesce(json_extract(metadata, '$.createdAt'), ''), first, last
    FROM journal LEFT JOIN threads ON threads.seq = journal.thread AND state <> 'deleting'
    WHERE n >= coalesce((SELECT max(n) FROM journal WHERE n <= ?), 0) ORDER BY n LIMIT ?
"""
_CUT = (
    "INSERT INTO journal SELECT n + :seq - first + 1, 0, :seq + 1, last FROM journal "
    "WHERE thread = :thread AND first <= :seq AND last > :seq",
    "UPDATE journal SET last = :seq WHERE thread = :thread AND first <= :seq AND last > :seq",
    "UPDATE journal SET thread = 0 WHERE thread = :thread AND first > :seq",
)
"""Events that a thread has lost belong to no thread from then on. Their cursors stay used: clients may know them."""


class Span(NamedTuple):
    """Events of one thread that came one after the other."""

    n: int
    """The cursor of the first."""
    thread: str
    """Empty if the thread is gone."""
    born: str
    """When it was created."""
    first: int
    last: int

    @property
    def end(self) -> int:
        """The cursor of the last."""
        return self.n + self.last - self.first


@dataclass(frozen=True, slots=True)
class JournalPage:
    spans: tuple[Span, ...]
    upto: int
    """The cursor after which the next page begins."""
    born: str = ""
    """When the agency was created."""


class Journal:
    def __init__(self, store: AgencyStore) -> None:
        self._store = store

    @property
    def end(self) -> int:
        """The cursor of the latest event."""
        rows = self._store.rows(_END)
        return int(rows[0][0]) if rows else 0

    def take(self, updates: Iterable[ThreadUpdate]) -> None:
        """Write down how far threads have got, and where their new events are."""
        with self._store.transaction() as db:
            end = self.end
            for update in updates:
                end = _take(db, end, update)

    def page(self, after: int, limit: int) -> JournalPage:
        """The next events after a cursor, at most so many that are still there."""
        spans: list[Span] = []
        upto, left = after, limit
        for row in self._store.rows(_PAGE, (after + 1, ROWS_MOST)):
            span = _after(Span(*row), after)
            if span.first > span.last:
                continue
            if span.thread:
                span = span._replace(last=min(span.last, span.first + left - 1))
                left -= span.last - span.first + 1
            spans.append(span)
            upto = span.end
            if not left:
                break
        return JournalPage(tuple(spans), upto)


def _take(db: sqlite3.Connection, end: int, update: ThreadUpdate) -> int:
    """The cursor of the latest event then."""
    known = db.execute(_KNOWN, (update.address.thread, update.born)).fetchone()
    if known is None:
        return end  # deleted, or not of this thread but of one that had its id before
    thread, head = known
    if update.seq > head:
        db.execute("INSERT INTO journal VALUES (?, ?, ?, ?)", (end + 1, thread, head + 1, update.seq))
        end += update.seq - head
    elif update.instead_of == head:
        for sql in _CUT:
            db.execute(sql, {"thread": thread, "seq": update.seq})
    else:
        return end
    db.execute(_STANDS, (update.seq, update.status, update.reason, update.at, update.title, thread))
    accounts.settle(db, update.address.thread, update.spent, update.children, anew=update.seq < head)
    schedules.note(db, update.address.thread, update.status, update.at)
    return end


def _after(span: Span, after: int) -> Span:
    skip = max(0, after + 1 - span.n)
    return span._replace(n=span.n + skip, first=span.first + skip)
