"""What an agency tells about all its threads together: where something was said, and figures over time."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agency.messages import Usage
from agency.turn.state import RunStatus
from agency.wire import Wire

StatisticsBy = Literal["hour", "day"]


class SnippetPart(Wire):
    """A piece of text, and whether it is what was searched for."""

    text: str
    match: bool = False


class SearchHit(Wire):
    """A thread in which the words were found, and the place that fits best: its title, or a message of it."""

    thread_id: str
    agent_type: str
    title: str | None
    status: RunStatus
    updated_at: str
    found_in: Literal["title", "user", "assistant"]
    message_id: str | None = None
    at: str | None = Field(default=None, description="When that was said, if it is known.")
    snippet: tuple[SnippetPart, ...]


class SearchPage(Wire):
    hits: tuple[SearchHit, ...]
    next: int | None = Field(default=None, description="`after` of the next page; null on the last.")
    behind: int = Field(default=0, description="How many threads have more to read: search again in a moment.")


class RunFigures(Wire):
    """What the runs that ended in some time were, and what was used in it."""

    runs: int = 0
    completed: int = 0
    failed: int = 0
    canceled: int = 0
    tokens_used: Usage = Usage()
    cost_usd: float = 0.0
    unpriced: int = Field(default=0, description="Model calls whose price is unknown; `costUsd` is without them.")
    duration_p50_ms: int | None = Field(default=None, description="Working time: half of the runs took at most this.")
    duration_p95_ms: int | None = None
    tool_calls: int = 0
    tool_errors: int = 0


class FiguresSpan(RunFigures):
    """Those of an hour or a day, in UTC."""

    at: str = Field(description="When it began.")


class AgentFigures(RunFigures):
    agent_type: str


class ToolTally(Wire):
    tool: str
    calls: int
    errors: int


class Statistics(Wire):
    """An agency's figures over time: hour by hour or day by day, without a gap, and all together."""

    by: StatisticsBy
    since: str
    until: str
    spans: tuple[FiguresSpan, ...]
    total: RunFigures
    agents: tuple[AgentFigures, ...] = Field(description="The same by agent, the busiest first.")
    tools: tuple[ToolTally, ...] = Field(description="The tools that were called, those that failed most first.")
    behind: int = Field(default=0, description="How many threads have more to count: ask again in a moment.")
