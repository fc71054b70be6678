"""Figures: counted by hosts from the events that threads commit, and summed up by the directory.

A host always sends its totals since it began, and the directory adds the difference to the last ones it has. So a
message that arrives twice changes nothing, and the next message makes up for one that was lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import cast

from pydantic import JsonValue

from agency.events import EventData, EventType, NewEvent
from agency.spending import DECIMALS

Totals = dict[str, int]
"""By the names that `actors.status.Metrics` has for them; money in `UNITS`."""

UNITS = 10**DECIMALS
"""A dollar, in whole numbers, of which any sum is exact."""

_COUNTED = {
    EventType.RUN_STARTED: "runs_started",
    EventType.AGENT_COMPLETED: "runs_completed",
    EventType.RUN_CANCELED: "runs_canceled",
    EventType.AGENT_ERROR: "runs_failed",
    EventType.RUN_TICK: "turns",
    EventType.MODEL_STARTED: "model_calls",
    EventType.TOOL_STARTED: "tool_calls",
    EventType.TOOL_ERROR: "tool_errors",
    EventType.SUBAGENT_SPAWNED: "subagents_spawned",
    EventType.RUN_RECOVERED: "runs_recovered",
    EventType.TOOL_RETRIED: "tool_retries",
    EventType.MODEL_RETRIED: "model_retries",
}


class EventCounts:
    """What one host has counted since it began."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, name: str, many: int = 1) -> None:
        self._counts[name] += many

    def count(self, events: Sequence[NewEvent]) -> None:
        for kind, data in events:
            if (name := _COUNTED.get(kind)) is not None:
                self._counts[name] += 1
            elif kind is EventType.MODEL_COMPLETED:
                self._count_model(data)
            elif kind is EventType.MODEL_ASKED:
                self.add("model_calls")
                self._count_model(data)
            elif kind is EventType.HITL_INTERRUPT:
                self.add("approvals_asked", len(cast(list[JsonValue], data["proposedToolCalls"])))
            elif kind is EventType.HITL_RESUME:
                self.add("approvals_answered", len(cast(dict[str, JsonValue], data["decisions"])))

    def _count_model(self, data: EventData) -> None:
        if "error" in data:
            self.add("model_failures")
        else:
            usage = cast(dict[str, int], data["usage"])
            self.add("tokens_in", usage["inputTokens"])
            self.add("tokens_out", usage["outputTokens"])
            self.add("tokens_cached", usage.get("cachedInputTokens", 0))
            self.add("tokens_cache_written", usage.get("cacheWriteTokens", 0))
            self._count_cost(cast(float | None, data["costUsd"]))

    def _count_cost(self, cost_usd: float | None) -> None:
        if cost_usd is None:
            self.add("model_calls_unpriced")
        else:
            self.add("cost_units", round(cost_usd * UNITS))

    def totals(self) -> Totals:
        return dict(self._counts)


class InstallationTotals:
    """What all hosts have counted since the directory began, and what it has counted itself."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()
        self._known: dict[str, Counter[str]] = {}

    def begin(self, host: str, totals: Totals) -> None:
        """Leave out what a host had counted before."""
        self._known[host] = Counter(totals)

    def take(self, host: str, totals: Totals) -> None:
        new = Counter(totals)
        new.subtract(self._known.get(host, Counter()))
        self._sums.update(new)
        self._known[host] = Counter(totals)

    def forget(self, host: str) -> None:
        self._known.pop(host, None)

    def add(self, name: str) -> None:
        self._sums[name] += 1

    def all(self) -> Totals:
        return dict(self._sums)
