"""What a thread's tables were, after any earlier event: an undo log in the thread's own file.

Messages and events are only ever appended, so what they were is their beginning. The other tables that make up what a
thread knows (those of middleware, `kv` and `children`) are written over. Triggers note, for each row that changes, the
statement that takes the change back, in the same transaction, with the last event before it (`at`). A commit writes its
rows before its events, so a change of the commit that added event 7 has an `at` below 7: to get back to what was known
after event 7, the statements with an `at` of 7 or more are executed, the newest first.

What no event came of belongs to the event before it: it is there when one goes back to that event.

The values of a statement are beside it, as they were in the table: nothing is lost in writing them down, and a file of
a megabyte takes a megabyte.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

NOT_FOLLOWED = frozenset(
    {
        "meta",
        "messages",
        "events",
        "runs",
        "surface",
        "effects",
        "inbox",
        "requests",
        "outbox",
        "timers",
        "undo",
        "waits",
        "asides",
        "tokens",
        "surfaces",
        "details",
    }
)
"""Tables that only grow, that tell how a run in progress stands, or what the thread is to others."""

SMALL = frozenset({"kv", "children"})
"""Tables of our own, whose rows are written down whole: that makes for short triggers, and they are in every file."""

BELONGS_BEFORE = (
    "UPDATE undo SET at = at - 1 WHERE at = ?1 "
    "AND n > coalesce((SELECT n FROM undo WHERE at < ?1 ORDER BY n DESC LIMIT 1), 0)"
)
"""For a commit without events: what it changed belongs to the last event, not to the next."""

_LAST = "(SELECT coalesce(max(seq), 0) FROM events)"
_FIXED = frozenset({"INT", "INTEGER", "REAL"})
_ROWIDS = ("rowid", "oid", "_rowid_")
_CREATES = re.compile(r"\s*CREATE\b", re.IGNORECASE)
_ADDS = re.compile(r"\s*(CREATE\b|ALTER\s+TABLE\s.+?\sADD\b)", re.IGNORECASE | re.DOTALL)
_COUNT = re.compile(r"\?(\d+)\)?$")
"""The number of the last value is at the end of every statement."""


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    """As SQL has it."""
    type: str
    """What its values are, if the table is strict; else empty."""

    def of(self, row: str) -> str:
        return f"{row}.{self.name}"

    def differs(self) -> Iterator[tuple[str, str]]:
        """What is to be compared before and after: a letter's case matters, and so does a type."""
        binary = "" if self.type in _FIXED or self.type == "BLOB" else " COLLATE BINARY"
        yield f"{self.of('OLD')}{binary}", self.of("NEW")
        if self.type in ("", "ANY"):
            yield f"typeof({self.of('OLD')})", f"typeof({self.of('NEW')})"


def _differ(*columns: _Column) -> str:
    before, after = zip(*(pair for each in columns for pair in each.differs()), strict=True)
    return f"({','.join(before)}) IS NOT ({','.join(after)})"


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    key: tuple[_Column, ...]
    """What names a row."""
    columns: tuple[_Column, ...]
    """All of them, those of the key included."""
    small: bool

    @property
    def values(self) -> int:
        """The most that one of its statements has."""
        return len(self.columns) + len(self.key)

    def triggers(self) -> Iterator[str]:
        """What makes them."""
        table = _quoted(self.name)
        names = ",".join(each.name for each in self.columns)
        numbers = ",".join(f"?{i}" for i in range(1, len(self.columns) + 1))
        before = [each.of("OLD") for each in self.columns]
        after = [each.of("NEW") for each in self.key]
        yield self._trigger("DELETE", _text(f"INSERT INTO {table} ({names}) VALUES ({numbers})"), before)
        yield self._trigger("INSERT", _text(f"DELETE FROM {table} WHERE {self._where(1)}"), after)
        always, perhaps = [], []
        for i, each in enumerate(self.columns, 1):
            if self.small or each.type in _FIXED or each in self.key:
                always.append(f"{each.name}=?{i}")
            else:  # it may be large, and is not written down unless it has changed
                perhaps.append(f"iif({_differ(each)},{_text(f',{each.name}=?{i}')},'')")
                before[i - 1] = f"iif({_differ(each)},{each.of('OLD')},NULL)"
        where = f" WHERE {self._where(len(self.columns) + 1)}"
        change = f"UPDATE {table} SET {','.join(always)}"
        statement = "||".join((_text(change), *perhaps, _text(where))) if perhaps else _text(change + where)
        yield self._trigger("UPDATE", statement, before + after, f" WHEN {_differ(*self.columns)}")

    def _where(self, first: int) -> str:
        return " AND ".join(f"{each.name} IS ?{i}" for i, each in enumerate(self.key, first))

    def _trigger(self, change: str, statement: str, values: list[str], when: str = "") -> str:
        name = _quoted(f"undo_{change.lower()}_{self.name}")
        into = ",".join(f"v{i}" for i in range(1, len(values) + 1))
        log = f"INSERT INTO undo (at,sql,{into}) VALUES ({_LAST},{statement},{','.join(values)})"
        return f"CREATE TRIGGER {name} AFTER {change} ON {_quoted(self.name)}{when} BEGIN {log}; END"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def follow(db: sqlite3.Connection) -> None:
    """Have the log follow every table that there is now and that it does not follow yet."""
    known = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")}
    found = db.execute("SELECT name, wr, strict FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")
    for name, without_rowid, strict in found.fetchall():
        if name in NOT_FOLLOWED or name.startswith("sqlite_") or f"undo_delete_{name}" in known:
            continue
        table = _table(db, name, named=without_rowid or strict, strict=strict)
        _make_room(db, table.values)
        for made_by in table.triggers():
            db.execute(made_by)


def leave(db: sqlite3.Connection) -> None:
    """Follow no table any more: while triggers speak of a column, it cannot be renamed or removed."""
    for (name,) in db.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name GLOB 'undo_*'"
    ).fetchall():
        db.execute(f"DROP TRIGGER {_quoted(name)}")


def change_tables(db: sqlite3.Connection, steps: Sequence[str]) -> None:
    """Take the steps of tables that middleware keep. What the log has stays right if they add and take nothing away."""
    if not all(_CREATES.match(step) for step in steps):
        leave(db)
    for step in steps:
        db.execute(step)
    follow(db)
    if not all(_ADDS.match(step) for step in steps):
        begin(db)


def _table(db: sqlite3.Connection, name: str, *, named: bool, strict: bool) -> _Table:
    """`named`: the primary key, if there is one, names a row. In other tables it may be NULL, in many rows at once."""
    rows = db.execute("SELECT name, type, pk FROM pragma_table_info(?)", (name,)).fetchall()
    columns = {column: _Column(_quoted(column), kind.upper() if strict else "") for column, kind, _ in rows}
    key = tuple(columns[column] for column, _, place in sorted(rows, key=lambda row: row[2]) if place)
    if key and named:
        return _Table(name, key, tuple(columns.values()), name in SMALL)
    taken = {column.lower() for column in columns}
    rowid = _Column(next(each for each in _ROWIDS if each not in taken), "INTEGER")
    return _Table(name, (rowid,), (rowid, *columns.values()), name in SMALL)


def _make_room(db: sqlite3.Connection, values: int) -> None:
    (columns,) = db.execute("SELECT count(*) FROM pragma_table_info('undo') WHERE name GLOB 'v[0-9]*'").fetchone()
    for i in range(columns + 1, values + 1):
        db.execute(f"ALTER TABLE undo ADD COLUMN v{i} ANY")


def begin(db: sqlite3.Connection) -> None:
    """What was before now is not known: the log begins after the latest event."""
    db.execute("DELETE FROM undo")
    db.execute(f"REPLACE INTO meta SELECT 'history', {_LAST}")


def known_since(db: sqlite3.Connection) -> int:
    """The first event after which everything is known as it was then."""
    row = db.execute("SELECT value FROM meta WHERE key = 'history'").fetchone()
    return int(row[0]) if row else 0


def revert(db: sqlite3.Connection, seq: int) -> None:
    """Take back whatever changed after an event. No trigger fires meanwhile: the log has what they did, too."""
    triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        db.execute(f"DROP TRIGGER {_quoted(name)}")
    for _, _, statement, *values in db.execute("SELECT * FROM undo WHERE at >= ? ORDER BY n DESC", (seq,)):
        last = _COUNT.search(statement)
        assert last is not None
        db.execute(statement, values[: int(last[1])])
    db.execute("DELETE FROM undo WHERE at >= ?", (seq,))
    for _, made_by in triggers:
        db.execute(made_by)
