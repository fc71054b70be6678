"""A schedule: which agent an agency starts threads for, with what message, when, and what came of it each time."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agency.define.blueprint import Name
from agency.define.options import RunOptions
from agency.schedules.occurrences import Timing
from agency.turn.state import Limits
from agency.wire import Wire

Overlap = Literal["skip", "queue", "allow"]
CatchUp = Literal["one", "none"]
ScheduleStatus = Literal["active", "paused", "done"]
"""`done` is one that will never be due again."""

ScheduleRunStatus = Literal[
    "queued", "starting", "started", "completed", "canceled", "error", "skipped", "missed", "failed"
]

MESSAGE_MOST = 32_000


class Schedule(Timing, RunOptions):
    """What is to be done, and when."""

    name: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=200),
        Field(description="What people call it."),
    ]
    agent_type: Annotated[Name, Field(description="The name of a blueprint.")]
    message: Annotated[
        str, Field(min_length=1, max_length=MESSAGE_MOST, description="What each thread begins with, a user's.")
    ]
    overlap: Annotated[
        Overlap,
        Field(
            description="When it is due and the run before is still going on: `skip` it, `queue` it until that has "
            "ended, or `allow` both."
        ),
    ] = "skip"
    catch_up: Annotated[
        CatchUp,
        Field(description="For times missed while the server was down: `one` thread for all of them, or `none`."),
    ] = "one"
    limits: Annotated[Limits | None, Field(description="In the place of the blueprint's.")] = None


class ScheduleInfo(Schedule):
    """A schedule as it stands."""

    id: str
    status: ScheduleStatus = "active"
    next_at: str | None = None
    """When it is due next; None if it is paused or done."""
    created_at: str
    updated_at: str


class ScheduleRun(Wire):
    """One time that a schedule was due, or that a person had it run.

    `queued` waits for the run before, and `starting` for its thread; `started` goes on until the thread's run has
    ended, as `completed`, `canceled` or `error`. The others were never started: `skipped` because of the run before,
    `missed` because the server was down, `failed` for what `error` says.
    """

    id: str
    schedule_id: str
    due_at: str
    started_at: str | None = None
    ended_at: str | None = None
    thread_id: str | None = None
    """The thread; None if there is none and will be none."""
    status: ScheduleRunStatus
    by: Literal["schedule", "person"]
    error: str | None = None
    missed_since: str | None = None
    """It stands for every time from then on at which it was due while the server was down."""


class SchedulePage(Wire):
    schedules: tuple[ScheduleInfo, ...]
    next: int | None = Field(default=None, description="`after` of the next page; null on the last.")


class ScheduleRunPage(Wire):
    """The newest first."""

    runs: tuple[ScheduleRun, ...]
    next: int | None = Field(default=None, description="`after` of the next page; null on the last.")
