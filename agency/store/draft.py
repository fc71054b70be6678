"""What one result changes, gathered before it is written.

Everything that follows from a result is staged in one `Draft` and written by one commit: that is the commit rule. A
draft that is dropped has changed nothing. `query` sees the draft's own writes: they are applied, read and rolled back.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import JsonValue

from agency.clock import now_ms
from agency.errors import ToolError
from agency.events import NewEvent, preview, runtime_warning
from agency.messages import Message
from agency.secrets import bytes_without_secrets, free_of_secrets, has_secrets, without_secrets
from agency.titles import SET_TITLE, as_title
from agency.wire import sayable_text

if TYPE_CHECKING:
    from agency.store.store import ThreadStore

Value = str | int | float | bytes | None
Row = tuple[Value, ...]
Statement = tuple[str, Sequence[Value]]
Mark = tuple[int, int, int, int]
NOTHING: Mark = (0, 0, 0, 0)


When = Literal["next_step", "next_run", "now"]
"""When a message joins the conversation: at the run's next turn, in the run after it, or at once, in the place of what
is being done."""


class Posted(NamedTuple):
    """A message on its way into the inbox; `terms` are those of the run that it is to start, as JSON."""

    message: Message
    when: When = "next_step"
    terms: str | None = None


WARNINGS = "run_warnings"
"""Who owns a run's warnings among the small values that are kept."""
_MOST_WARNINGS = 50
_WARN = f"""
    INSERT INTO kv SELECT '{WARNINGS}', printf('%08d.%02d', ?1, n), ?2 FROM (
        SELECT count(*) AS n FROM kv WHERE owner = '{WARNINGS}' AND key GLOB printf('%08d.*', ?1)
    ) WHERE n < {_MOST_WARNINGS}
"""
_KIND = re.compile(r"[a-z][a-z0-9_]{0,63}")

_READ_ONLY: Statement = ("SELECT 1", ())  # makes the store roll back whatever the query does


@functools.lru_cache(maxsize=512)  # the same few statements are staged in every commit
def _first_word(sql: str) -> str:
    return sql.split(maxsplit=1)[0].upper().rstrip(";") if sql.strip() else ""


class Draft:
    """What one commit of a thread will write. Tools and hooks get one as `ctx.store`.

    It is committed whole, together with what it belongs to: a call's result, a turn. If the call fails, it is dropped.
    """

    def __init__(self, store: ThreadStore | None, run: int = 0) -> None:
        self._store = store
        self.run = run
        self.statements: list[Statement] = []
        self.messages: list[Message] = []
        """Appended to the transcript."""
        self.posted: list[Posted] = []
        """Put into the inbox, to join the transcript later."""
        self.events: list[NewEvent] = []
        self.sends = False
        """Puts something into the outbox."""
        self.sets_timer = False
        self.sets_title = False
        self.ends_children = False
        """Changes which children are waited for, or who waits for them."""
        self.taken: int | None = None
        """How many messages it takes out of the inbox, if it has looked there."""

    def execute(self, sql: str, params: Sequence[Value] = ()) -> None:
        """Stage one statement."""
        if _first_word(sql) not in ("INSERT", "REPLACE", "UPDATE", "DELETE", "WITH"):
            raise ValueError(f"a draft takes statements that write rows, not {sql!r:.80}")
        self.statements.append((sql, params))

    def query(self, sql: str, params: Sequence[Value] = ()) -> list[Row]:
        """Read, with what this draft has staged already in view. It cannot write: that is what `execute` is for."""
        if _first_word(sql) not in ("SELECT", "WITH", "VALUES"):
            raise ValueError(f"a query reads, and this does not: {sql!r:.80}")
        if self._store is None:
            raise ToolError("a tool on the cluster can write to its thread's store, but not read it")
        return self._store.query(sql, params, [*self.statements, _READ_ONLY])

    def emit(self, event: NewEvent) -> None:
        self.events.append(event)

    def warn(self, kind: str, message: str) -> None:
        """Tell the run's owner of something that the run survives: in an event, and in the run's `meta.warnings`, which
        has the first fifty. `kind` is a stable word, such as `cache_lost`."""
        if not _KIND.fullmatch(kind):
            raise ValueError(f"the kind of a warning is a word such as 'cache_lost', not {kind!r:.100}")
        said = preview(without_secrets(sayable_text(message)))
        self.execute(_WARN, (self.run, json.dumps({"kind": kind, "message": said, "at": now_ms()})))
        self.emit(runtime_warning(kind, said))

    def set_title(self, title: str) -> None:
        """Give the thread a title; a line of plain text is made of it."""
        if not (line := as_title(title)):
            raise ValueError("a title is a line of text")
        self.sets_title = True
        self.execute(SET_TITLE, (line,))

    def post(self, message: Message, when: When = "next_step", terms: str | None = None) -> None:
        self.posted.append(Posted(message, when, terms))

    def get(self, owner: str, key: str) -> JsonValue:
        """A small value kept under a name; None if there is none."""
        rows = self.query("SELECT value FROM kv WHERE owner = ? AND key = ?", (owner, key))
        if not rows:
            return None
        value: JsonValue = json.loads(str(rows[0][0]))
        return value

    def put(self, owner: str, key: str, value: JsonValue) -> None:
        """Keep a small value under a name; None removes it."""
        if value is None:
            self.execute("DELETE FROM kv WHERE owner = ? AND key = ?", (owner, key))
        else:
            sql = "INSERT INTO kv VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
            self.execute(sql, (owner, key, json.dumps(value)))

    def __getstate__(self) -> dict[str, object]:
        """In another process it can still be written to; `absorb` takes that back."""
        return {**self.__dict__, "_store": None}

    def absorb(self, staged: Draft) -> None:
        """Take over what a copy of this draft has staged in another process."""
        store = self._store
        self.__dict__.update(staged.__dict__)
        self._store = store

    def mark(self) -> Mark:
        """Remember what is staged now, for `undo`."""
        return len(self.statements), len(self.messages), len(self.posted), len(self.events)

    def undo(self, mark: Mark) -> None:
        """Drop what was staged since."""
        statements, messages, posted, events = mark
        del self.statements[statements:], self.messages[messages:], self.posted[posted:], self.events[events:]

    def remove_secrets(self, mark: Mark) -> None:
        """Take the values of secrets out of what other people's code has staged since."""
        if not has_secrets():
            return
        statements, _, posted, events = mark
        for i, (sql, params) in enumerate(self.statements[statements:], statements):
            self.statements[i] = (without_secrets(sql), tuple(_without_secrets(value) for value in params))
        for i, post in enumerate(self.posted[posted:], posted):
            said = without_secrets(post.message.content)
            self.posted[i] = post._replace(message=post.message.model_copy(update={"content": said}))
        for i, event in enumerate(self.events[events:], events):
            data = {name: free_of_secrets(value) for name, value in event.data.items()}
            self.events[i] = event._replace(data=data)

    def try_out(self, mark: Mark) -> None:
        """Raise what the database would raise, if anything has been written since the mark."""
        if len(self.statements) > mark[0]:
            self.query("SELECT 1")

    def __bool__(self) -> bool:
        return bool(self.statements or self.messages or self.posted or self.events)


def _without_secrets(value: Value) -> Value:
    match value:
        case str():
            return without_secrets(value)
        case bytes():
            return bytes_without_secrets(value)
        case _:
            return value
