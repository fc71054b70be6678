"""Figures of some time: what ended, what was used and what failed. Two of them can be added, whatever their times.

Of how long runs took only the order of magnitude is kept, in steps of five per cent. So the figures of an hour take the
same room for ten runs as for a million, and percentiles of any sum of them are right within that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from agency.api.overview import RunFigures, ToolTally
from agency.events import EventType
from agency.messages import Usage
from agency.spending import DECIMALS
from agency.store.since import CountedEvent
from agency.wire import Wire

STEP = 1.05
TOOLS_MOST = 100
"""So many tools have figures of their own; what a model calls by a name that no tool has could be anything."""

_ENDS = {
    EventType.AGENT_COMPLETED: "completed",
    EventType.AGENT_ERROR: "failed",
    EventType.RUN_CANCELED: "canceled",
}


class Figures(Wire):
    completed: int = 0
    failed: int = 0
    canceled: int = 0
    usage: Usage = Usage()
    cost_usd: float = 0.0
    unpriced: int = 0
    durations: dict[int, int] = {}
    """How many runs took how long, by steps."""
    calls: dict[str, int] = {}
    """By tool."""
    errors: dict[str, int] = {}

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            completed=self.completed + other.completed,
            failed=self.failed + other.failed,
            canceled=self.canceled + other.canceled,
            usage=self.usage + other.usage,
            cost_usd=round(self.cost_usd + other.cost_usd, DECIMALS),
            unpriced=self.unpriced + other.unpriced,
            durations=dict(Counter(self.durations) + Counter(other.durations)),
            calls=_most_called(Counter(self.calls) + Counter(other.calls)),
            errors=_most_called(Counter(self.errors) + Counter(other.errors)),
        )

    @property
    def runs(self) -> int:
        return self.completed + self.failed + self.canceled

    def shown(self) -> RunFigures:
        return RunFigures(
            runs=self.runs,
            completed=self.completed,
            failed=self.failed,
            canceled=self.canceled,
            tokens_used=self.usage,
            cost_usd=self.cost_usd,
            unpriced=self.unpriced,
            duration_p50_ms=percentile(self.durations, 0.5),
            duration_p95_ms=percentile(self.durations, 0.95),
            tool_calls=sum(self.calls.values()),
            tool_errors=sum(self.errors.values()),
        )

    def tools(self) -> tuple[ToolTally, ...]:
        """Those that failed most first."""
        names = self.calls.keys() | self.errors.keys()
        found = [ToolTally(tool=name, calls=self.calls.get(name, 0), errors=self.errors.get(name, 0)) for name in names]
        return tuple(sorted(found, key=lambda each: (-each.errors, -each.calls, each.tool)))


def figures_of(event: CountedEvent) -> Figures:
    """What one event adds."""
    data = event.data
    match event.type:
        case EventType.MODEL_COMPLETED | EventType.MODEL_ASKED:
            return _model_figures(data.get("usage"), data.get("costUsd"))
        case EventType.TOOL_STARTED:
            return Figures(calls={str(data.get("toolName")): 1})
        case EventType.TOOL_ERROR if data.get("kind") == "canceled":  # which is no error of the tool
            return Figures()
        case EventType.TOOL_ERROR:
            return Figures(errors={str(data.get("toolName")): 1})
        case _:
            took = {} if event.worked_ms is None else {_step(event.worked_ms): 1}
            return Figures.model_validate({_ENDS[event.type]: 1, "durations": took})


def _model_figures(usage: Mapping[str, int] | None, cost_usd: float | None) -> Figures:
    if usage is None:  # it failed before it used anything
        return Figures()
    used = Usage(
        input=usage.get("inputTokens", 0),
        output=usage.get("outputTokens", 0),
        cached_input=usage.get("cachedInputTokens", 0),
        cache_write=usage.get("cacheWriteTokens", 0),
        reasoning=usage.get("reasoningTokens", 0),
    )
    return Figures(usage=used, cost_usd=cost_usd or 0.0, unpriced=int(cost_usd is None))


def total_of(figures: Iterable[Figures]) -> Figures:
    return sum(figures, Figures())


def percentile(durations: Mapping[int, int], part: float) -> int | None:
    """The time that this part of the runs took at most, in milliseconds; None if there was no run."""
    left = part * sum(durations.values())
    for step in sorted(durations):
        left -= durations[step]
        if left <= 0:
            return round(STEP**step)
    return None


def _step(ms: int) -> int:
    return round(math.log(max(ms, 1), STEP))


def _most_called(counts: Counter[str]) -> dict[str, int]:
    return dict(counts.most_common(TOOLS_MOST))
