"""What an agency's threads have used, and what they may use all together.

A thread tells what all its runs have used so far, again and again; what is new in that goes into the agency's totals,
in the same transaction. So it does no harm if the same is told twice, or late, and nothing is taken back when a thread
is deleted. Before a model is called the thread asks, with its newest total: a thread that is refused is written down,
to be told when there is more to spend.
"""

from __future__ import annotations

import sqlite3

from actors.agency.store import AgencyStore
from agency.api.tenancy import AgencyUsage, Budget, Use
from agency.spending import Spent, add_costs

_KNOWN = "SELECT seq, parent IS NOT NULL, spent, children FROM threads WHERE id = ?"
_STANDS = "UPDATE threads SET spent = ?, children = ? WHERE seq = ?"
_ADD = "INSERT INTO usage VALUES (?, ?) ON CONFLICT (whose) DO UPDATE SET spent = excluded.spent"
_BEGUN = "SELECT parent IS NOT NULL, count(*) FROM threads WHERE refused = 1 GROUP BY 1"
_REFUSED = "SELECT id FROM threads WHERE refused = 1 AND reason = 'exhausted' AND state <> 'deleting' ORDER BY seq"


class Accounts:
    def __init__(self, store: AgencyStore) -> None:
        self._store = store

    def usage(self) -> AgencyUsage:
        totals, budget = self._totals(), self._store.info().budget
        total = totals["roots"] + totals["children"]
        return AgencyUsage(
            **_use(total).model_dump(by_alias=False),
            children=_use(totals["children"]),
            threads=sum(self._store.counts().values()),
            budget=budget,
            exhausted=_exhausted(budget, total),
        )

    @property
    def exhausted(self) -> str | None:
        """The code of the budget that is used up, if one is."""
        totals = self._totals()
        return _exhausted(self._store.info().budget, totals["roots"] + totals["children"])

    def allow(self, thread_id: str, spent: Spent) -> str | None:
        """Whether a thread that has used so much may go on with the turn that it has begun; else the code of the
        budget that is used up."""
        with self._store.transaction() as db:
            settle(db, thread_id, spent)
            _refuse(db, thread_id, refused=True)
            code = self.exhausted
            _refuse(db, thread_id, refused=code is not None)
        return code

    def _totals(self) -> dict[str, Spent]:
        """What all threads have used: root threads and children apart. A turn that was begun and then refused is not
        used yet."""
        rows = self._store.rows("SELECT whose, spent FROM usage")
        found = {"roots": Spent(), "children": Spent(), **{who: Spent.model_validate_json(body) for who, body in rows}}
        for is_child, begun in self._store.rows(_BEGUN):
            whose = "children" if is_child else "roots"
            found[whose] += Spent(turns=-begun)
        return found

    def settle(self, thread_id: str, spent: Spent) -> None:
        """Add what a thread has used to what all of them have."""
        with self._store.transaction() as db:
            settle(db, thread_id, spent)

    def refused(self) -> list[str]:
        """The threads that are paused because a budget was used up when they asked."""
        return [thread_id for (thread_id,) in self._store.rows(_REFUSED)]


def settle(
    db: sqlite3.Connection, thread_id: str, spent: Spent, children: Spent | None = None, *, anew: bool = False
) -> None:
    """Write down what a thread has used, in a transaction of the agency's file. `anew` is one whose file is from an
    earlier time: from there it counts on, and what it had used since then was used all the same."""
    row = db.execute(_KNOWN, (thread_id,)).fetchone()
    if row is None:
        return
    seq, is_child, *bodies = row
    known, known_children = (Spent.model_validate_json(body) for body in bodies)
    newest = spent if anew else _later(known, spent)
    below = known_children if children is None else children if anew else _later(known_children, children)
    if (newest, below) == (known, known_children):
        return
    db.execute(_STANDS, (newest.model_dump_json(), below.model_dump_json(), seq))
    if not anew and newest != known:
        whose = "children" if is_child else "roots"
        row = db.execute("SELECT spent FROM usage WHERE whose = ?", (whose,)).fetchone()
        total = Spent.model_validate_json(row[0]) if row is not None else Spent()
        db.execute(_ADD, (whose, (total + _since(known, newest)).model_dump_json()))


def _later(one: Spent, other: Spent) -> Spent:
    """Of two totals of one thread, the later one: they only grow."""
    return max(one, other, key=lambda spent: (spent.turns, spent.usage.total, spent.active_ms))


def _since(before: Spent, now: Spent) -> Spent:
    usage = {name: count - getattr(before.usage, name) for name, count in now.usage}
    cost = None if now.cost_usd is None else add_costs(now.cost_usd, -(before.cost_usd or 0.0))
    return Spent(
        usage=now.usage.model_copy(update=usage),
        cost_usd=cost,
        turns=now.turns - before.turns,
        active_ms=now.active_ms - before.active_ms,
    )


def _refuse(db: sqlite3.Connection, thread_id: str, *, refused: bool) -> None:
    db.execute("UPDATE threads SET refused = ? WHERE id = ?", (int(refused), thread_id))


def _use(spent: Spent) -> Use:
    return Use(turns=spent.turns, active_ms=spent.active_ms, tokens_used=spent.usage, cost_usd=spent.cost_usd)


def _exhausted(budget: Budget, used: Spent) -> str | None:
    if budget.turns is not None and used.turns >= budget.turns:
        return "ERR_AGENCY_TURNS"
    if budget.time_ms is not None and used.active_ms >= budget.time_ms:
        return "ERR_AGENCY_TIME"
    if budget.tokens is not None and used.usage.total >= budget.tokens:
        return "ERR_AGENCY_TOKENS"
    if budget.cost_usd is not None:
        if used.cost_usd is None:
            return "ERR_AGENCY_COST_UNKNOWN"
        return "ERR_AGENCY_COST" if used.cost_usd >= budget.cost_usd else None
    return None
