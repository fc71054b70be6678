"""Operations of an agency on its schedules: the threads that it starts by itself."""

from __future__ import annotations

from urllib.parse import quote

from typing_extensions import Unpack

from agency.api import schedule_bodies as api
from agency.client.operation import Resource, asks, lists
from agency.client.request import Listing, ListPage, Request, body, delete, encoded, get, key, listing, post
from agency.define.options import RunOptionFields
from agency.errors import InvalidInput, NotFound
from agency.schedules.occurrences import Kind
from agency.schedules.schedule import CatchUp, Overlap, ScheduleInfo, SchedulePage, ScheduleRun, ScheduleRunPage
from agency.turn.state import Limits


class ScheduleFields(RunOptionFields, total=False):
    """The fields of a schedule. When you change one, the fields that you leave out keep their values."""

    name: str
    agent_type: str
    message: str
    kind: Kind
    at: str | None
    every_ms: int | None
    cron: str | None
    timezone: str
    overlap: Overlap
    catch_up: CatchUp
    limits: Limits | None


class ScheduleOperations(Resource):
    @lists
    def schedules(self) -> Listing[ScheduleInfo]:
        """The agency's schedules, the oldest first."""
        return listing(SchedulePage, f"{self._path}/schedules", lambda found: ListPage(found.schedules, found.next))

    @asks
    def schedule(self, schedule: str) -> Request[ScheduleInfo]:
        """A schedule by its id or its name, and its next time."""
        return get(ScheduleInfo, self._schedule(schedule))

    @asks
    def create_schedule(
        self, *, idempotency_key: str | None = None, **fields: Unpack[ScheduleFields]
    ) -> Request[ScheduleInfo]:
        """Create a schedule with a `name`, an `agent_type` and a `message`.

        Its `kind` is "once" with `at`, "interval" with `every_ms`, or "cron" with `cron` and a `timezone`.
        """
        wanted = encoded(api.NewSchedule, {**fields, "idempotency_key": idempotency_key or key()})
        return post(ScheduleInfo, f"{self._path}/schedules", wanted)

    @asks
    def change_schedule(self, schedule: str, **fields: Unpack[ScheduleFields]) -> Request[ScheduleInfo]:
        """Change a schedule. Fields that you leave out keep their values."""
        return post(ScheduleInfo, self._schedule(schedule), encoded(api.ScheduleChange, fields), method="PATCH")

    @asks
    def pause_schedule(self, schedule: str) -> Request[ScheduleInfo]:
        """Pause a schedule: it starts nothing until you resume it."""
        return post(ScheduleInfo, self._schedule(schedule), body(api.ScheduleChange, status="paused"), method="PATCH")

    @asks
    def resume_schedule(self, schedule: str) -> Request[ScheduleInfo]:
        """Resume a schedule at its next time. Times that passed in the meantime are skipped."""
        return post(ScheduleInfo, self._schedule(schedule), body(api.ScheduleChange, status="active"), method="PATCH")

    @asks
    def run_schedule(self, schedule: str, *, idempotency_key: str | None = None) -> Request[ScheduleRun]:
        """Run a schedule now. While a run of it is in progress, its `overlap` decides; "skip" raises `WrongState`."""
        wanted = body(api.RunWanted, idempotency_key=idempotency_key or key())
        return post(ScheduleRun, f"{self._schedule(schedule)}/run", wanted)

    @lists
    def schedule_runs(self, schedule: str) -> Listing[ScheduleRun]:
        """The runs of a schedule, the newest first."""
        path = f"{self._schedule(schedule)}/runs"
        return listing(ScheduleRunPage, path, lambda found: ListPage(found.runs, found.next))

    @asks
    def delete_schedule(self, schedule: str) -> Request[None]:
        """Delete a schedule and its history. The threads that it started stay."""
        return delete(self._schedule(schedule), done=NotFound)

    def _schedule(self, schedule: str) -> str:
        """The address of a schedule, by its id or its name."""
        if not schedule or "/" in schedule:  # that would be another address
            raise InvalidInput(f"name a schedule by its id, or by a name without '/', not {schedule!r:.100}")
        return f"{self._path}/schedules/{quote(schedule, safe='')}"
