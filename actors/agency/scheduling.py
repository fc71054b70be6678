"""Running an agency's schedules: taking what is due, and making the threads that are to be.

What is to be started is in the agency's file (`schedules`). The scheduler finds it there, makes its thread, and then
writes down that it has; a start that fails or is interrupted is found again, after a while or after a crash. The
directory keeps the time of the next look.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Literal

from pydantic import JsonValue, ValidationError

from actors.agency.context import AgencyContext
from actors.agency.limits import StorageLimits
from actors.agency.pages import check_limit
from actors.agency.schedules import Schedules, Start
from actors.agency.threads import AgencyThreads
from actors.operations import Seq, index_operation, operation
from agency.clock import now_ms
from agency.define.blueprint import check_models
from agency.errors import AgencyError, InvalidInput, NotFound, WrongState, told_of
from agency.idempotency import check_repeated, request_digest
from agency.local import HOPELESS
from agency.names import check_name
from agency.schedules.schedule import Schedule, ScheduleInfo, SchedulePage, ScheduleRun, ScheduleRunPage
from agency.wire import explain, sayable

log = logging.getLogger(__name__)

BATCH = 20
NAME = "a schedule's name"
"""Of so many schedules it is written down together that they are due; then others may use the loop."""

STARTING_AT_ONCE = 16
AGAIN_MS = 2_000

_FIELDS = {field.alias: name for name, field in Schedule.model_fields.items()}
"""A schedule's fields, by the names that they have outside."""

_TIMES = ("at", "every_ms", "cron")


class Scheduler:
    def __init__(self, context: AgencyContext, threads: AgencyThreads) -> None:
        self._context = context
        self._schedules = Schedules(context.store)
        self._limits = StorageLimits(context.settings, context.store)
        self._threads = threads
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._at_once = asyncio.Semaphore(STARTING_AT_ONCE)

    # What callers want.

    @operation
    async def schedules(self, after: Seq = 0, limit: int = 100) -> SchedulePage:
        """The schedules in the order in which they were made."""
        check_limit(limit, "schedules")
        return self._schedules.page(after, limit, self._context.settings.page_bytes)

    @operation
    async def schedule(self, schedule_id: str) -> ScheduleInfo:
        """A schedule by its id or its name, with when it is due next."""
        return self._schedules.get(schedule_id)

    @operation
    async def create_schedule(self, schedule_id: str, fields: Mapping[str, JsonValue]) -> ScheduleInfo:
        """A new schedule. The caller gives its id, so calling again makes no second one; calling with other fields
        raises `KeyReused`."""
        digest = request_digest(fields=_named(fields))
        check_repeated(self._schedules.digest(schedule_id), digest)
        if (known := self._schedules.find(schedule_id)) is not None:
            return known
        wanted = _schedule(fields)
        check_name(wanted.name, NAME)
        self._limits.check_new_schedule(self._schedules.count)
        self._check(wanted)
        made = self._schedules.add(schedule_id, wanted, now_ms(), digest)
        self.look_soon()
        return made

    @operation
    async def change_schedule(
        self, schedule_id: str, fields: Mapping[str, JsonValue], status: Literal["active", "paused"] | None = None
    ) -> ScheduleInfo:
        """Change a schedule, pause it or have it go on; what is not given stays as it was. A time of another kind is
        in the place of the one that was, and an interval that changes is counted from now on."""
        known = self._schedules.get(schedule_id)
        before = known.model_dump(mode="json", by_alias=False, include=set(Schedule.model_fields))
        given = _named(fields)
        if given.get("kind", known.kind) != known.kind:
            before |= dict.fromkeys(_TIMES)
        elif "every_ms" in given:
            before["at"] = None
        wanted = _schedule({**before, **given})
        if "name" in given:
            check_name(wanted.name, NAME)
        if given:
            self._check(wanted)
        changed = self._schedules.change(self._schedules.get(known.id), wanted, status, now_ms())
        self.look_soon()
        return changed

    @operation
    async def delete_schedule(self, schedule_id: str) -> None:
        """Delete a schedule with its history. The threads that it has started stay."""
        self._schedules.drop(self._schedules.get(schedule_id).id)
        self.look_soon()

    @index_operation
    async def run_schedule(self, schedule_id: str, run_id: str) -> ScheduleRun:
        """Have it run now: at once, or after the run that is going on, as its `overlap` says; with `skip`, not while
        one is going on. The caller gives the id of the run, so calling again starts no second one."""
        run = self._schedules.run_now(schedule_id, run_id, now_ms())
        if run.status == "starting":
            await asyncio.gather(*(self._start(each) for each in self._schedules.starting() if each.run == run_id))
        self.look_soon()
        found = self._schedules.find_run(run_id)
        if found is None:
            raise NotFound(f"schedule {schedule_id!r} was deleted")
        return found

    @index_operation
    async def schedule_runs(self, schedule_id: str, after: Seq = 0, limit: int = 100) -> ScheduleRunPage:
        """What came of a schedule, the newest first."""
        check_limit(limit, "runs")
        return self._schedules.runs(
            self._schedules.get(schedule_id).id, after, limit, self._context.settings.page_bytes
        )

    def _check(self, wanted: Schedule) -> None:
        self._limits.check_schedule(wanted)
        if wanted.model is not None:
            check_models(wanted.model)
        self._threads.check_schedule(wanted)

    # What the clock asks.

    def look_soon(self) -> None:
        """Something has changed: have `run_due` called at once, in the background."""
        self._look_at(0)

    def _look_at(self, due: int | None) -> None:
        self._context.installation.ring_at(self._context.id, due)

    def threads_ended(self) -> None:
        """Threads have ended or are being deleted. Schedules that queue runs behind them may go on."""
        if self._schedules.is_waiting:
            self.look_soon()

    async def run_due(self) -> None:
        """Start what is due, what was queued, and what an activation that died had begun to start."""
        more = True
        while more and not self._context.deleting:
            more = self._schedules.take_due(now_ms(), BATCH)
            await self._context.installation.give_way(self._context.id)
        tried: set[str] = set()
        while not self._context.deleting:
            self._schedules.promote()
            left = [each for each in self._schedules.starting() if each.run not in tried]
            if not left:
                self._look_at(now_ms() + AGAIN_MS if self._schedules.starting() else self._schedules.next_due)
                return
            tried.update(each.run for each in left)
            await asyncio.gather(*map(self._start, left))

    async def _start(self, start: Start) -> None:
        """Make the thread of a run, once however many callers want it."""
        task = self._starting.get(start.run)
        if task is None:
            beginning = self._context.store.file.perform(self._begin(start))
            task = self._starting[start.run] = asyncio.create_task(beginning, name=f"start {start.thread}")
            task.add_done_callback(lambda _: self._starting.pop(start.run, None))
        await asyncio.shield(task)

    async def _begin(self, start: Start) -> None:
        async with self._at_once:
            await self._context.pace.turn()
            schedule = None if self._context.deleting else self._schedules.find(start.schedule)
            if schedule is None:
                return
            try:
                await self._threads.make_scheduled(start.thread, schedule)
                why = None
            except (*HOPELESS, WrongState) as error:
                log.warning("schedule %s cannot start a thread: %s", schedule.id, error)
                why = told_of(error)
            except AgencyError as error:
                log.warning("thread %s of schedule %s cannot be started yet: %s", start.thread, schedule.id, error)
                return
            if self._context.deleting:
                return
            if why is None:
                self._schedules.started(start.run, now_ms())
            else:
                self._schedules.failed(start.run, why, now_ms())


def _named(fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {_FIELDS.get(field, field): value for field, value in fields.items()}


def _schedule(fields: Mapping[str, JsonValue]) -> Schedule:
    try:
        return Schedule.model_validate(sayable(_named(fields)))
    except ValidationError as error:
        raise InvalidInput(f"wrong schedule: {explain(error)}") from error
