"""The rows of tokens: what each call waits for from outside, under the digest of the token that settles it.

Functions that take a `Draft` stage; those that take a `ThreadStore` read. Rows stay when they are closed, so that what
settles a token a second time is told that it was settled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agency.store.draft import Draft
from agency.store.records import OUTCOME
from agency.store.store import ThreadStore
from agency.store.timers import Timer, drop_timer, drop_timers
from agency.turn.outcomes import Settled

TokenStatus = Literal["waiting", "settled", "timed_out", "canceled"]
_COLUMNS = "digest, run, effect, call, about, created_at, deadline, status, outcome"


@dataclass(frozen=True, slots=True)
class TokenRow:
    digest: str
    run: int
    effect: int
    call: str
    about: str
    created_at: int
    deadline: int
    status: TokenStatus = "waiting"
    outcome: bytes | None = None
    """The call's result, if it came before the tool had returned."""

    @property
    def timer(self) -> Timer:
        return Timer("outside", key=self.digest)


def add_token(draft: Draft, row: TokenRow) -> None:
    values = (row.digest, row.run, row.effect, row.call, row.about, row.created_at, row.deadline, row.status)
    draft.execute(f"INSERT INTO tokens ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)", values)


def close_token(draft: Draft, row: TokenRow, status: TokenStatus, outcome: Settled | None = None) -> None:
    """With an `outcome`, that is kept for the tool's return."""
    kept = None if outcome is None else OUTCOME.dump_json(outcome)
    draft.execute("UPDATE tokens SET status = ?, outcome = ? WHERE digest = ?", (status, kept, row.digest))
    drop_timer(draft, row.timer)


def close_tokens_of(draft: Draft, run: int, effect: int, call: str) -> None:
    """The call is over: what is left of its tokens settles nothing."""
    for row in _of_call(draft, run, effect, call, "status = 'waiting'"):
        close_token(draft, row, "canceled")


def close_all_tokens(draft: Draft) -> None:
    draft.execute("UPDATE tokens SET status = 'canceled' WHERE status = 'waiting'")
    drop_timers(draft, "outside")


def token(store: ThreadStore, digest: str) -> TokenRow | None:
    rows = store.query(f"SELECT {_COLUMNS} FROM tokens WHERE digest = ?", (digest,))
    return TokenRow(*rows[0]) if rows else None  # type: ignore[arg-type]  # STRICT columns have these types


def early_outcome(store: ThreadStore, run: int, effect: int, call: str) -> Settled | None:
    """What had settled a call before its tool returned, if something had."""
    found = _of_call(store, run, effect, call, "outcome IS NOT NULL")
    if not found or found[0].outcome is None:
        return None
    outcome = OUTCOME.validate_json(found[0].outcome)
    assert outcome.status != "deferred"
    return outcome


def calls_with_tokens(store: ThreadStore) -> set[tuple[int, int, str]]:
    """The calls, by run, effect and id, that tokens may settle, or have settled before the tool returned."""
    rows = store.query("SELECT run, effect, call FROM tokens WHERE status = 'waiting' OR outcome IS NOT NULL")
    return {(int(str(run)), int(str(effect)), str(call)) for run, effect, call in rows}


def _of_call(store: ThreadStore | Draft, run: int, effect: int, call: str, which: str) -> list[TokenRow]:
    sql = f"SELECT {_COLUMNS} FROM tokens WHERE run = ? AND effect = ? AND call = ? AND {which} ORDER BY created_at"
    return [TokenRow(*row) for row in store.query(sql, (run, effect, call))]  # type: ignore[arg-type]  # as above
