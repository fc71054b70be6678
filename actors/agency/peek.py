"""Looking into an agency's file without waking the agency: for hosts, for listings, and for a directory that begins.

A file may be about to be created, be of an older version, or be damaged. Then there is nothing to see, and the agency
itself reports what is wrong when it is opened. Its terms are the exception: what cannot be read is never taken for
terms that set nothing, so `peek_terms` raises.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from actors.agency.store import LAYERS, LAYOUT, STAMP, Section, info_of, is_empty, layers_of, was_more
from agency.api.tenancy import AgencyInfo, Budget, Layer
from agency.approvals.ceilings import layered
from agency.approvals.rules import Policy
from agency.errors import Damaged, NotFound, StoreError
from agency.events import timestamp
from agency.models.providers.entry import Provider
from agency.store import sqlite
from agency.turn.state import RunCeiling, least


def peek_info(path: Path) -> AgencyInfo | None:
    """What an agency is; of one whose file is damaged, that it is. None if there is none, or it is being deleted."""
    try:
        return info_of(_look(path, "SELECT key, value FROM meta"), path)
    except NotFound:
        return None
    except sqlite3.Error as error:
        damaged = is_empty(error, path) or sqlite.is_damage(sqlite.refused("read", path, error))
        return _damaged(path) if damaged else None
    except (KeyError, ValidationError):
        return _damaged(path)


def _damaged(path: Path) -> AgencyInfo | None:
    try:
        at = timestamp(int(path.stat().st_mtime * 1000))
    except FileNotFoundError:
        return None
    return AgencyInfo(id=path.parent.name, name=path.parent.name, created_at=at, damaged=True)


def peek_blueprints(path: Path) -> list[tuple[str, str]]:
    """The names of an agency's own blueprints, and themselves as JSON."""
    return [(name, body) for name, body in _peek(path, "SELECT name, body FROM blueprints")]


def peek_blueprints_stamp(path: Path) -> str | None:
    """What is another as soon as an agency's blueprints are others; None if that cannot be seen."""
    rows = _peek(path, f"SELECT key, value FROM meta WHERE key IN ('id', 'created_at', '{STAMP}') ORDER BY key")
    return repr(rows) if rows else None


@dataclass(frozen=True, slots=True)
class PeekedTerms:
    """What an agency has set for its threads, and what was set for it."""

    providers: Mapping[str, tuple[Provider, Layer]]
    budget: Budget
    policy: Policy
    ceiling: RunCeiling
    vouched: Sequence[Section]


_SET = (
    f"SELECT key, value, '' FROM meta WHERE key IN ({','.join(repr(key) for keys in LAYERS.values() for key in keys)})"
)
_PROVIDERS = "SELECT 'provider:' || name, body, set_by FROM providers"
_VOUCHED = "SELECT 'vouched:' || name, vouched, '' FROM blueprints WHERE vouched <> '[]'"
_OLD_PROVIDERS = "SELECT 'provider:' || name, body, 'agency' FROM providers"
"""Of a file that this release has not opened yet."""

PROVIDERS_SINCE, OWNERS_SINCE = 3, 7
"""The versions of an agency's file since which it has providers, and says who has set them."""


def peek_terms(path: Path) -> PeekedTerms | None:
    """The terms of an agency; None if there is none, or it is just being made. Raises `StoreError` if they cannot be
    read now, and `Damaged` if they cannot be read at all."""
    try:
        path.stat()
        with sqlite.store_errors("read", path):
            rows = _term_rows(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error}") from error
    try:
        return None if rows is None else _terms(rows)
    except (ValueError, TypeError) as error:
        raise Damaged(f"{path} is damaged: it does not say what goes for its threads: {error}") from error


def _term_rows(path: Path) -> list[tuple[Any, ...]] | None:
    with closing(sqlite.connect(path, "rw")) as db:
        version = sqlite.version_of(db, path, LAYOUT)
        if version == 0:
            if was_more(path):
                raise Damaged(f"{path} is empty")
            return None
        parts = [_SET]
        if version >= OWNERS_SINCE:
            parts += [_PROVIDERS, _VOUCHED]
        elif version >= PROVIDERS_SINCE:
            parts.append(_OLD_PROVIDERS)
        return db.execute(" UNION ALL ".join(parts)).fetchall()


def _terms(rows: Sequence[tuple[Any, ...]]) -> PeekedTerms:
    found = {kind: body for kind, body, _ in rows}
    own = {
        kind.removeprefix("provider:"): (Provider.model_validate_json(body), set_by)
        for kind, body, set_by in rows
        if kind.startswith("provider:")
    }
    vouched = [(name, said) for kind, body, _ in rows if kind.startswith("vouched:") for name, said in from_json(body)]
    budget, policy, limits = layers_of(Budget, found), layers_of(Policy, found), layers_of(RunCeiling, found)
    return PeekedTerms(
        providers=own,
        budget=budget.agency.within(budget.owner),
        policy=layered(policy.owner, policy.agency),
        ceiling=RunCeiling(**least(limits.owner, limits.agency)),
        vouched=vouched,
    )


def is_unfinished(path: Path) -> bool:
    """Whether the agency was interrupted while it made or deleted threads, or may have more to tell them."""
    unfinished = "SELECT 1 FROM threads WHERE state <> 'ready' UNION SELECT 1 FROM meta WHERE key = 'deleting'"
    refused = "SELECT 1 FROM threads WHERE refused = 1 AND reason = 'exhausted'"  # which older files do not have yet
    return bool(_peek(path, f"{unfinished} LIMIT 1") or _peek(path, f"{refused} LIMIT 1"))


def peek_due(path: Path) -> int | None:
    """When an agency has to be awake for its schedules: at once, if it was interrupted while it started something."""
    if _peek(path, "SELECT 1 FROM schedule_runs WHERE status IN ('queued', 'starting') LIMIT 1"):
        return 0
    rows = _peek(path, "SELECT min(next_at) FROM schedules WHERE next_at IS NOT NULL")
    return rows[0][0] if rows else None


def peek_counts(path: Path) -> tuple[int, int]:
    """How many threads an agency has, and how many of them wait for a person."""
    waiting = "SELECT count(*) FROM threads WHERE reason = 'hitl'"
    leaving = "SELECT count(*) FROM threads WHERE state = 'deleting' AND state <> 'ready'"
    rows = _peek(path, f"SELECT (SELECT count(*) FROM threads) - ({leaving}), ({waiting})")
    return rows[0] if rows else (0, 0)


def peek_heads(path: Path, threads: Sequence[str]) -> dict[str, int]:
    """The seqs that threads are known to have reached."""
    wanted = ",".join("?" * len(threads))
    return dict(_peek(path, f"SELECT id, head FROM threads WHERE id IN ({wanted})", threads))


def has_thread(path: Path, thread: str) -> bool:
    """Whether an agency knows of events of a thread that is not being deleted, so that there must be a file of it."""
    return bool(_peek(path, "SELECT 1 FROM threads WHERE id = ? AND state = 'ready' AND head > 0", (thread,)))


def _peek(path: Path, sql: str, params: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    try:
        return _look(path, sql, params)
    except sqlite3.Error:
        return []  # being created, or not an agency's


def _look(path: Path, sql: str, params: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    if not path.exists():
        return []
    with closing(sqlite.connect(path)) as db:
        return db.execute(sql, params).fetchall()
