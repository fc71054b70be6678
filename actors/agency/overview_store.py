"""The overview of an agency, in a file of its own beside the agency's: the words that were said in its threads, for
full-text search, and its figures by the hour and by the day.

It follows the threads' files, and nothing writes to it but what reads them (`overview`): how far each thread has been
read is in the same transaction as what was found there. So nothing is counted twice and nothing is missing after any
crash, and old agencies are read like new ones. It is not the agency's file because it is larger than all
of that, and because reading takes time: it is used in worker threads only, by one connection for each use.

The text of a deleted thread goes. Its figures stay, as what it has used does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from actors.agency.figures import Figures, figures_of
from agency.api.overview import StatisticsBy
from agency.clock import now_ms
from agency.store import sqlite
from agency.store.since import SinceThen
from agency.store.sqlite import Layout, Storage, Transaction

APPLICATION_ID = 0x41474F56  # "AGOV"
STEPS = (
    """
    CREATE TABLE reached (
        thread INTEGER PRIMARY KEY, id TEXT NOT NULL, head INTEGER NOT NULL, messages INTEGER NOT NULL,
        title TEXT NOT NULL
    ) STRICT;
    CREATE VIRTUAL TABLE said USING fts5 (
        text, role UNINDEXED, message UNINDEXED, at UNINDEXED, tokenize = 'unicode61 remove_diacritics 2'
    );
    CREATE TABLE figures (
        span TEXT NOT NULL, begin INTEGER NOT NULL, agent TEXT NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (span, begin, agent)
    ) WITHOUT ROWID, STRICT;
    """,
)
LAYOUT = Layout("an agency's overview", APPLICATION_ID, STEPS)

SPANS: dict[StatisticsBy, int] = {"hour": 3_600_000, "day": 86_400_000}
HOURS_KEPT_MS = 62 * 86_400_000
"""After that there are only the days."""

HITS_MOST = 1_000
"""Of so many places, the best ones, search chooses its threads."""

THREAD_ROWS = 1 << 24
"""The rows of a thread in `said` are numbered from its own number times this: its title, then its messages."""

OPENS, CLOSES = "\x02", "\x03"
"""Around what was found, in a snippet."""
SNIPPET_TOKENS = 24

_THREADS = """
    SELECT t.seq, t.id, json_extract(t.metadata, '$.agentType'),
           coalesce(json_extract(t.metadata, '$.forkedFrom.seq'), 0), coalesce(t.renamed, t.title, ''),
           r.head, r.messages, r.title
    FROM agency.threads AS t LEFT JOIN reached AS r ON r.thread = t.seq
"""
_UNREAD = f"""{_THREADS} WHERE t.seq > ? AND t.state = 'ready' AND t.head > 0
    AND (r.thread IS NULL OR r.head <> t.head OR r.title <> coalesce(t.renamed, t.title, ''))
"""
_GONE = """
    SELECT r.thread FROM reached AS r LEFT JOIN agency.threads AS t ON t.seq = r.thread
    WHERE t.seq IS NULL OR t.state = 'deleting'
"""
_REACHED = "INSERT OR REPLACE INTO reached VALUES (?, ?, ?, ?, ?)"
_SAID = "INSERT INTO said (rowid, text, role, message, at) VALUES (?, ?, ?, ?, ?)"
_FORGET = "DELETE FROM said WHERE rowid BETWEEN ? AND ?"
_FOUND = f"SELECT rowid FROM said WHERE said MATCH ? ORDER BY rank, rowid / {THREAD_ROWS} DESC, rowid LIMIT ?"
_SNIPPETS = """
    SELECT said.rowid, id, role, message, at, substr(snippet(said, 0, ?, ?, '…', ?), 1, 2000)
    FROM said JOIN reached ON thread = said.rowid / {rows} WHERE said MATCH ? AND said.rowid IN ({some})
"""


@dataclass(frozen=True, slots=True)
class UnreadThread:
    """A thread with more in its file than was read; `head` and `messages` are how far it was."""

    number: int
    id: str
    agent: str
    title: str
    head: int
    messages: int
    known_title: str


class FoundPlace(NamedTuple):
    """Where something was found: in the title (`role` is empty) or a message."""

    thread: str
    role: str
    message: str
    at: int | None
    snippet: str


class OverviewStore:
    """One use of the file; see `opened`."""

    def __init__(self, db: sqlite3.Connection, path: Path, agency: Path) -> None:
        self._db = db
        self._path = path
        self._agency = agency

    # Reading the threads.

    def unread(self, after: int, limit: int) -> list[UnreadThread]:
        """Threads with more to read, in the order of their numbers."""
        return [_thread(row) for row in self._beside(f"{_UNREAD} ORDER BY t.seq LIMIT ?", (after, limit))]

    def count_unread(self) -> int:
        return int(self._beside(f"SELECT count(*) FROM ({_UNREAD})", (0,))[0][0])

    def find(self, thread_id: str) -> UnreadThread | None:
        """A thread by its id, also one that is being deleted."""
        rows = self._beside(f"{_THREADS} WHERE t.id = ?", (thread_id,))
        return _thread(rows[0]) if rows else None

    def take(self, read: Iterable[tuple[UnreadThread, SinceThen]]) -> None:
        """Write down what was read of some threads, and how far that is."""
        with Transaction(self._db, self._path) as db:
            added: dict[tuple[StatisticsBy, int, str], list[Figures]] = {}
            for thread, since in read:
                if not self._is_next(db, thread):
                    continue  # another reader was quicker
                _write_text(db, thread, since)
                for event in since.counted:
                    more = figures_of(event)
                    for span, length in SPANS.items():
                        added.setdefault((span, event.at - event.at % length, thread.agent), []).append(more)
                db.execute(_REACHED, (thread.number, thread.id, since.seq, since.messages, thread.title))
            for key, figures in added.items():
                row = db.execute("SELECT body FROM figures WHERE (span, begin, agent) = (?, ?, ?)", key).fetchone()
                known = Figures() if row is None else Figures.model_validate_json(row[0])
                body = sum(figures, known).model_dump_json(exclude_defaults=True)
                db.execute("INSERT OR REPLACE INTO figures VALUES (?, ?, ?, ?)", (*key, body))
            db.execute("DELETE FROM figures WHERE span = 'hour' AND begin < ?", (now_ms() - HOURS_KEPT_MS,))

    def _is_next(self, db: sqlite3.Connection, thread: UnreadThread) -> bool:
        """Whether a thread has still been read as far as it had when its file was opened."""
        row = db.execute("SELECT head, messages FROM reached WHERE thread = ?", (thread.number,)).fetchone()
        return row is None or row == (thread.head, thread.messages)

    def forget(self, number: int) -> None:
        """Drop what a thread has said; what it has done stays counted."""
        with Transaction(self._db, self._path) as db:
            db.execute(_FORGET, (number * THREAD_ROWS, (number + 1) * THREAD_ROWS - 1))
            db.execute("DELETE FROM reached WHERE thread = ?", (number,))

    def forget_deleted(self) -> None:
        for (number,) in self._beside(_GONE):
            self.forget(number)

    def _beside(self, sql: str, params: Sequence[int | str] = ()) -> list[tuple[Any, ...]]:
        """Read with the agency's file in view. It is let go at once: a lock on it would keep the agency waiting."""
        self._db.execute("ATTACH ? AS agency", (f"{self._agency.absolute().as_uri()}?mode=ro",))
        try:
            return self._db.execute(sql, params).fetchall()
        finally:
            self._db.execute("DETACH agency")

    # Asking.

    def search(self, match: str, after: int, limit: int) -> tuple[list[FoundPlace], bool]:
        """The best place in each of the threads that fit best, and whether there are more threads."""
        best: dict[int, int] = {}
        for (row,) in self._db.execute(_FOUND, (match, HITS_MOST)):
            best.setdefault(row // THREAD_ROWS, row)
        rows = list(best.values())
        page = rows[after : after + limit]
        if not page:
            return [], False
        sql = _SNIPPETS.format(rows=THREAD_ROWS, some=",".join(str(row) for row in page))
        found = {
            row: FoundPlace(*place) for row, *place in self._db.execute(sql, (OPENS, CLOSES, SNIPPET_TOKENS, match))
        }
        return [found[row] for row in page if row in found], len(rows) > after + limit

    def figures(self, span: StatisticsBy, since: int, until: int) -> list[tuple[int, str, Figures]]:
        """By the beginning of the time and by agent."""
        sql = "SELECT begin, agent, body FROM figures WHERE span = ? AND begin >= ? AND begin < ? ORDER BY begin, agent"
        rows = self._db.execute(sql, (span, since, until)).fetchall()
        return [(begin, agent, Figures.model_validate_json(body)) for begin, agent, body in rows]


@contextmanager
def opened(path: Path, agency: Path, storage: Storage) -> Iterator[OverviewStore]:
    """The overview in `path`, made if it is not there, of the agency whose file is `agency`."""
    with sqlite.store_errors("open", path), closing(sqlite.connect(path)) as db:
        sqlite.use_journal(db, storage)
        sqlite.use_sync(db, storage.synchronous)
        db.execute("PRAGMA secure_delete = ON")
        if sqlite.version_of(db, path, LAYOUT) < len(STEPS):
            with Transaction(db, path, "open"):
                sqlite.take_steps(db, LAYOUT, sqlite.version_of(db, path, LAYOUT))
                if sqlite3.sqlite_version_info >= (3, 42):  # what is deleted leaves no word in the index, either
                    db.execute("INSERT INTO said (said, rank) VALUES ('secure-delete', 1)")
        yield OverviewStore(db, path, agency)


def _thread(row: Sequence[Any]) -> UnreadThread:
    n, name, agent, fork, title, head, messages, known = row
    return UnreadThread(n, name, agent, title, fork if head is None else head, messages or 0, known or "")


def _write_text(db: sqlite3.Connection, thread: UnreadThread, since: SinceThen) -> None:
    first = thread.number * THREAD_ROWS
    if since.messages < thread.messages:  # its file is from an earlier time
        db.execute(_FORGET, (first + 1, first + THREAD_ROWS - 1))
    if thread.title != thread.known_title:
        db.execute(_FORGET, (first, first))
        if thread.title:
            db.execute(_SAID, (first, thread.title, "", "", None))
    for each in since.said[: THREAD_ROWS - 1]:
        text = each.text.replace(OPENS, " ").replace(CLOSES, " ")
        db.execute(_SAID, (first + each.number, text, each.role, each.message_id, each.at))
