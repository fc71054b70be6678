"""What runs have used, in tokens, money, turns and time. What is not known is not zero: it makes a sum unknown."""

from __future__ import annotations

from agency.messages import Usage
from agency.wire import Wire

DECIMALS = 10


def add_costs(*costs: float | None) -> float | None:
    """A sum of US dollars; unknown if any part of it is."""
    total = 0.0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return round(total, DECIMALS)  # no 0.30000000000000004


class Spent(Wire):
    """What one or more runs have used, those of children left out unless it says otherwise."""

    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    """None is unknown."""
    turns: int = 0
    active_ms: int = 0

    def __add__(self, other: Spent) -> Spent:
        if self is NOTHING_SPENT or other is NOTHING_SPENT:
            return other if self is NOTHING_SPENT else self
        return Spent(
            usage=self.usage + other.usage,
            cost_usd=add_costs(self.cost_usd, other.cost_usd),
            turns=self.turns + other.turns,
            active_ms=self.active_ms + other.active_ms,
        )

    def exceeds(self, other: Spent) -> bool:
        """Whether this is a later total of the same: totals only grow."""
        mine, theirs = (self.turns, self.usage.total, self.active_ms), (other.turns, other.usage.total, other.active_ms)
        return mine > theirs


NOTHING_SPENT = Spent()
