"""What this process has seen its threads do, in numbers: an observer that counts.

    metrics = MetricsObserver()
    system = AgentSystem(…).observe(metrics)
    …
    print(metrics.snapshot().model_dump_json())

Counters count events that were committed here, so what several processes have counted can be added up. `pending` is how
many calls of the threads that are awake here wait for a person just now. Nothing grows with the number of threads that
have come and gone, nor with the names that models make up.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from pydantic import JsonValue

from agency.events import EventData, EventType
from agency.messages import Usage
from agency.observe.observers import ENDINGS, Observation, Resumed
from agency.wire import Wire

NAMES_MOST = 1_000
OTHERS = "(others)"
GRANTED = ("approve", "edit", "always", "respond", "rerun", "happened")
"""The decisions by which a call has, or gets, a result."""
"""Under this name goes what there is no room for."""


class CostFigures(Wire):
    """In US dollars. The sum is None if the cost of any call is unknown; `known_usd` is what the others cost."""

    usd: float | None
    known_usd: float
    unknown_calls: int


class CacheFigures(Wire):
    """A call is a hit if the provider read any of its input from its cache. The ratio of no calls is None."""

    hits: int
    misses: int
    hit_ratio: float | None
    read_tokens: int


class ModelFigures(Wire):
    """Calls that were begun, and those that failed, by code: a failed one may have been tried again."""

    calls: int
    failures_by_kind: dict[str, int]
    retries: int


class ToolFigures(Wire):
    """Types are those of `tool.started`, kinds those of `tool.error`. A call that was canceled is no error. Retries
    follow a failure, or a process that went away."""

    calls_by_name: dict[str, int]
    calls_by_type: dict[str, int]
    errors_by_name: dict[str, int]
    errors_by_kind: dict[str, int]
    retries: int


class ErrorFigures(Wire):
    """Runs that ended as an error, by code."""

    total: int
    by_kind: dict[str, int]


class TurnFigures(Wire):
    """Turns that have ended, and how long the latest of them were at work: pauses are left out, and so are turns during
    which a process died. Between two turns that were measured, a percentile is interpolated."""

    count: int
    latency_ms_p50: float | None
    latency_ms_p95: float | None


class ApprovalFigures(Wire):
    """Calls that wait for a person, that were granted (approved, edited, approved for always, or answered in the tool's
    place), and that were denied."""

    pending: int
    granted: int
    denied: int


class Snapshot(Wire):
    """What a `MetricsObserver` has counted in its process."""

    events: int
    events_by_type: dict[str, int]
    warnings_by_kind: dict[str, int]
    tokens: Usage
    cost: CostFigures
    cache: CacheFigures
    models: ModelFigures
    tools: ToolFigures
    errors: ErrorFigures
    turns: TurnFigures
    approvals: ApprovalFigures
    recoveries: int
    """Runs that were taken up here after their process died, or was stopped, while they were at work."""


class MetricsObserver:
    """`window` is how many turns the percentiles are taken from. A snapshot may be taken in any thread."""

    def __init__(self, *, window: int = 1_000) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, _RunProgress] = {}
        self._counts: Counter[EventType] = Counter()
        self._usage = Usage()
        self._hits = self._misses = 0
        self._known_usd, self._unknown_calls = 0.0, 0
        self._failures: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        self._types: Counter[str] = Counter()
        self._tool_errors: Counter[str] = Counter()
        self._tool_error_kinds: Counter[str] = Counter()
        self._warnings: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._decisions: Counter[str] = Counter()
        self._turns = 0
        self._latencies: deque[int] = deque(maxlen=window)

    def observe(self, seen: Observation) -> None:
        with self._lock:
            self._count(seen.type, seen.data)
            if seen.type in _COURSE:
                self._follow(seen)

    def resumed(self, run: Resumed) -> None:
        with self._lock:
            followed = self._runs[run.thread.id] = _RunProgress()
            for seen in run.turn:
                followed.see(seen)
            followed.interrupted()

    def left(self, thread_id: str) -> None:
        with self._lock:
            self._runs.pop(thread_id, None)

    def snapshot(self) -> Snapshot:
        """The figures so far. They are a copy: they do not change."""
        with self._lock:
            latencies, looked_up = sorted(self._latencies), self._hits + self._misses
            granted = sum(
                self._decisions[each] for each in ("approve", "edit", "always", "respond", "rerun", "happened")
            )
            return Snapshot(
                events=self._counts.total(),
                events_by_type={event.value: count for event, count in self._counts.items()},
                warnings_by_kind=dict(self._warnings),
                tokens=self._usage,
                cost=CostFigures(
                    usd=None if self._unknown_calls else round(self._known_usd, 10),
                    known_usd=round(self._known_usd, 10),
                    unknown_calls=self._unknown_calls,
                ),
                cache=CacheFigures(
                    hits=self._hits,
                    misses=self._misses,
                    hit_ratio=self._hits / looked_up if looked_up else None,
                    read_tokens=self._usage.cached_input,
                ),
                tools=ToolFigures(
                    calls_by_name=dict(self._calls),
                    calls_by_type=dict(self._types),
                    errors_by_name=dict(self._tool_errors),
                    errors_by_kind=dict(self._tool_error_kinds),
                    retries=self._counts[EventType.TOOL_RETRIED],
                ),
                models=ModelFigures(
                    calls=self._counts[EventType.MODEL_STARTED] + self._counts[EventType.MODEL_ASKED],
                    failures_by_kind=dict(self._failures),
                    retries=self._counts[EventType.MODEL_RETRIED],
                ),
                errors=ErrorFigures(total=self._errors.total(), by_kind=dict(self._errors)),
                turns=TurnFigures(
                    count=self._turns,
                    latency_ms_p50=percentile(latencies, 0.50),
                    latency_ms_p95=percentile(latencies, 0.95),
                ),
                approvals=ApprovalFigures(
                    pending=sum(len(followed.asked) for followed in self._runs.values()),
                    granted=granted,
                    denied=self._decisions["deny"],
                ),
                recoveries=self._counts[EventType.RUN_RECOVERED],
            )

    def _count(self, event: EventType, data: EventData) -> None:
        self._counts[event] += 1
        match event:
            case EventType.MODEL_COMPLETED | EventType.MODEL_ASKED:
                self._count_model(data)
            case EventType.TOOL_STARTED:
                _add(self._calls, data["toolName"])
                _add(self._types, data["toolType"])
            case EventType.TOOL_ERROR if data.get("kind") != "canceled":
                _add(self._tool_errors, data["toolName"])
                _add(self._tool_error_kinds, data["kind"])
            case EventType.RUNTIME_WARNING:
                _add(self._warnings, data["kind"])
            case EventType.AGENT_ERROR:
                _add(self._errors, data["code"])
            case EventType.HITL_RESUME:
                self._decisions.update(cast(dict[str, str], data["decisions"]).values())

    def _count_model(self, data: EventData) -> None:
        if "error" in data:
            _add(self._failures, cast(dict[str, JsonValue], data["error"])["code"])
            return
        usage = usage_of(data["usage"])
        self._usage += usage
        if usage.cached_input:
            self._hits += 1
        else:
            self._misses += 1
        cost = cast(float | None, data.get("costUsd"))
        if cost is None:
            self._unknown_calls += 1
        else:
            self._known_usd += cost

    def _follow(self, seen: Observation) -> None:
        followed = self._runs.get(seen.thread.id)
        if followed is None:
            followed = self._runs[seen.thread.id] = _RunProgress()
        ended = followed.see(seen)
        if ended is not None:
            self._turns += 1
            if ended.whole:
                self._latencies.append(ended.worked)
        if seen.type in ENDINGS:
            del self._runs[seen.thread.id]


@dataclass(slots=True)
class _Turn:
    """A turn under way: how long it was at work, and since when it is at work again."""

    since: int | None
    worked: int = 0
    whole: bool = True
    """Whether all of it was seen."""

    def pause(self, at: int) -> None:
        if self.since is not None:
            self.worked += max(0, at - self.since)
            self.since = None


@dataclass(slots=True)
class _RunProgress:
    """How far the run of a thread has got."""

    asked: set[str] = field(default_factory=set)
    """The calls that wait for a person."""
    turn: _Turn | None = None

    def see(self, seen: Observation) -> _Turn | None:
        """The turn that this has ended, if it has."""
        match seen.type:
            case EventType.RUN_TICK:
                return self._end(seen.at, _Turn(since=seen.at))
            case EventType.RUN_PAUSED if seen.data["reason"] == "exhausted":
                return self._end(seen.at)  # between two turns
            case EventType.RUN_PAUSED if self.turn is not None:
                self.turn.pause(seen.at)
            case EventType.RUN_RESUMED if self.turn is not None:
                self.turn.since = seen.at
            case EventType.HITL_INTERRUPT:
                calls = cast(list[dict[str, str]], seen.data["proposedToolCalls"])
                self.asked.update(call["callId"] for call in calls)
            case EventType.HITL_RESUME:
                self.asked.difference_update(cast(dict[str, str], seen.data["decisions"]))
            case ending if ending in ENDINGS:
                return self._end(seen.at)
        return None

    def interrupted(self) -> None:
        """The run was out of memory for a while. If it waited, nothing was missed; if it was at work, its figures are
        incomplete."""
        if self.turn is not None and self.turn.since is not None:
            self.turn.whole = False

    def _end(self, at: int, following: _Turn | None = None) -> _Turn | None:
        ended, self.turn = self.turn, following
        if ended is not None:
            ended.pause(at)
        return ended


_COURSE = ENDINGS | {
    EventType.RUN_TICK,
    EventType.RUN_PAUSED,
    EventType.RUN_RESUMED,
    EventType.HITL_INTERRUPT,
    EventType.HITL_RESUME,
}


def usage_of(tokens: JsonValue) -> Usage:
    """The usage that an event tells."""
    counts = cast(dict[str, int], tokens)
    return Usage(
        input=counts["inputTokens"],
        output=counts["outputTokens"],
        cached_input=counts.get("cachedInputTokens", 0),
        cache_write=counts.get("cacheWriteTokens", 0),
        reasoning=counts.get("reasoningTokens", 0),
    )


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The value below which this share of them lies, on the line between its two neighbours; None if there are none."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _add(counter: Counter[str], name: JsonValue) -> None:
    known = str(name)
    counter[known if known in counter or len(counter) < NAMES_MOST else OTHERS] += 1
