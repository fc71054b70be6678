"""An agency's schedules in its file, with their runs: what there is, and what is to become of what is due.

Every decision is made here, and is one transaction over what the file says at some time; there is no clock and nothing
to wait for. That a schedule was due is written down together with what comes of it and with when it is due next. A run
that is to be started is `starting` from then on, and its thread's id follows from the schedule and the time. So if the
process dies at any moment, the thread is made afterwards (`scheduling`), the same one however often that is tried.
"""

from __future__ import annotations

import hashlib
import sqlite3
from typing import Any, Literal, NamedTuple

from pydantic_core import from_json

from actors.agency.store import AgencyStore
from agency.errors import InvalidInput, NotFound, WrongState
from agency.events import timestamp
from agency.schedules.occurrences import Timing, instant
from agency.schedules.schedule import (
    Schedule,
    ScheduleInfo,
    SchedulePage,
    ScheduleRun,
    ScheduleRunPage,
    ScheduleRunStatus,
    ScheduleStatus,
)
from agency.turn.state import RunStatus
from agency.wire import sayable_text

RUNS_MOST = 1_000
"""So many runs of one schedule are kept. Of the runs that are over, the oldest are dropped."""

QUEUE_MOST = 10
"""So many runs of a schedule may wait for the one before. Runs that are due beyond that are skipped."""

LATE_MS = 60_000
"""By how much a start may be late without having been missed."""

AHEAD_MOST = 3_660 * 24 * 3_600_000
ERROR_CHARS = 1_000
ENDED = frozenset[RunStatus]({"completed", "canceled", "error"})

_SCHEDULE = "seq, id, body, status, next_at, created_at, updated_at"
_RUN = "seq, id, schedule, due_at, started_at, ended_at, thread, status, by, error, missed_since"
_HAS_THREAD = ("started", "completed", "canceled", "error")

_ENDED = """
    UPDATE schedule_runs SET status = ?, ended_at = ?, started_at = coalesce(started_at, ?)
    WHERE thread = ? AND status IN ('starting', 'started')
"""
_AT_WORK = "SELECT thread FROM schedule_runs WHERE schedule = ? AND status IN ('starting', 'started') LIMIT 1"
_WAITING = "status IN ('queued', 'starting') AND status = ?"  # as its index has it
_TRIM = """
    DELETE FROM schedule_runs WHERE schedule = ? AND status NOT IN ('queued', 'starting', 'started')
    AND seq <= (SELECT seq FROM schedule_runs WHERE schedule = ? ORDER BY seq DESC LIMIT 1 OFFSET ?)
"""


class Start(NamedTuple):
    """A run whose thread is to be made."""

    run: str
    schedule: str
    thread: str


class Schedules:
    def __init__(self, store: AgencyStore) -> None:
        self._store = store

    # What there is.

    def page(self, after: int, limit: int, most: int) -> SchedulePage:
        """Schedules in the order in which they were made."""
        sql = f"SELECT {_SCHEDULE} FROM schedules WHERE seq > ? ORDER BY seq LIMIT ?"
        found = self._store.page(sql, (after,), limit, most)
        listed = tuple(_info(row)[1] for row in found.rows)
        return SchedulePage(schedules=listed, next=found.rows[-1][0] if found.more else None)

    @property
    def count(self) -> int:
        return int(self._store.rows("SELECT count(*) FROM schedules")[0][0])

    def find(self, schedule_id: str) -> ScheduleInfo | None:
        rows = self._store.rows(f"SELECT {_SCHEDULE} FROM schedules WHERE id = ?", (schedule_id,))
        return _info(rows[0])[1] if rows else None

    def get(self, named: str) -> ScheduleInfo:
        """A schedule by its id, or by its name if no other one has it."""
        if (found := self.find(named)) is not None:
            return found
        sql = f"SELECT {_SCHEDULE} FROM schedules WHERE json_extract(body, '$.name') = ? ORDER BY seq"
        by_name = [_info(row)[1] for row in self._store.rows(sql, (named,))]
        if not by_name:
            raise NotFound(f"there is no schedule {named!r:.100}")
        if len(by_name) > 1:
            ids = ", ".join(each.id for each in by_name)
            raise InvalidInput(f"{len(by_name)} schedules are named {named!r:.100}; say which by its id: {ids}")
        return by_name[0]

    def digest(self, schedule_id: str) -> str | None:
        """What was asked for when it was made; None if there is none, or an earlier release has made it."""
        rows = self._store.rows("SELECT digest FROM schedules WHERE id = ?", (schedule_id,))
        return rows[0][0] if rows else None

    def add(self, schedule_id: str, wanted: Schedule, now: int, digest: str | None = None) -> ScheduleInfo:
        """A new schedule. Adding it again changes nothing, and gives it as it is."""
        if (known := self.find(schedule_id)) is not None:
            return known
        wanted = _anchored(wanted, now)
        sql = (
            "INSERT INTO schedules (id, body, status, next_at, created_at, updated_at, digest) "
            "VALUES (?, ?, 'active', ?, ?, ?, ?)"
        )
        at = timestamp(now)
        self._store.write((sql, (schedule_id, wanted.model_dump_json(), _first(wanted, now), at, at, digest)))
        return self.get(schedule_id)

    def change(
        self, known: ScheduleInfo, wanted: Schedule, status: Literal["active", "paused"] | None, now: int
    ) -> ScheduleInfo:
        """Change the message or the times of a schedule, pause it, or have it go on. It goes on from now: runs that
        were due while it was paused are not made up for."""
        retimed = any(getattr(wanted, name) != getattr(known, name) for name in Timing.model_fields)
        wanted = _anchored(wanted, now)
        if known.status == "done" and not retimed and status is not None:
            raise WrongState("the schedule is done: it can be given another time, or be run now")
        become: ScheduleStatus = status or ("active" if retimed and known.status == "done" else known.status)
        due = None if known.next_at is None else instant(known.next_at)
        if become != "active":
            due = None
        elif retimed:
            due = _first(wanted, now)
        elif known.status != "active" and (due := wanted.next_after(now)) is None:
            raise WrongState("its time has passed while it was paused: give it another `at`, or run it now")
        sql = "UPDATE schedules SET body = ?, status = ?, next_at = ?, updated_at = ? WHERE id = ?"
        self._store.write((sql, (wanted.model_dump_json(), become, due, timestamp(now), known.id)))
        return self.get(known.id)

    def drop(self, schedule_id: str) -> None:
        """Forget a schedule and its runs. Their threads stay."""
        self._store.write(
            ("DELETE FROM schedules WHERE id = ?", (schedule_id,)),
            ("DELETE FROM schedule_runs WHERE schedule = ?", (schedule_id,)),
        )

    def runs(self, schedule_id: str, after: int, limit: int, most: int) -> ScheduleRunPage:
        """Its runs, the newest first; 0 is before the first of them."""
        sql = f"SELECT {_RUN} FROM schedule_runs WHERE schedule = ? AND seq < ? ORDER BY seq DESC LIMIT ?"
        found = self._store.page(sql, (schedule_id, after or 2**63 - 1), limit, most)
        listed = tuple(_run(row)[1] for row in found.rows)
        return ScheduleRunPage(runs=listed, next=found.rows[-1][0] if found.more else None)

    def find_run(self, run_id: str) -> ScheduleRun | None:
        rows = self._store.rows(f"SELECT {_RUN} FROM schedule_runs WHERE id = ?", (run_id,))
        return _run(rows[0])[1] if rows else None

    # What is due.

    @property
    def next_due(self) -> int | None:
        """When the first of them is due."""
        due: int | None = self._store.rows("SELECT min(next_at) FROM schedules WHERE next_at IS NOT NULL")[0][0]
        return due

    def take_due(self, now: int, most: int) -> bool:
        """Take what is due of at most so many schedules: write down a run for each, started, queued or skipped. Returns
        whether there may be more."""
        sql = f"SELECT {_SCHEDULE} FROM schedules WHERE next_at IS NOT NULL AND next_at <= ? ORDER BY next_at LIMIT ?"
        with self._store.transaction() as db:
            rows = db.execute(sql, (now, most)).fetchall()
            for row in rows:
                self._take(db, _info(row)[1], now)
        return len(rows) == most

    def _take(self, db: sqlite3.Connection, schedule: ScheduleInfo, now: int) -> None:
        """One run for all the times that are over: for the latest. Several are over if the installation was down."""
        assert schedule.next_at is not None
        first = instant(schedule.next_at)
        due = schedule.latest_until(first, now)
        since = first if first < due else None
        if now - due > LATE_MS and schedule.catch_up == "none":
            self._write_down(db, schedule, str(due), due, "missed", since=since)
        else:
            self._write_down(db, schedule, str(due), due, *self._admitted(schedule), since=since)
        following = schedule.next_after(due)
        become = "active" if following is not None else "done"
        db.execute("UPDATE schedules SET next_at = ?, status = ? WHERE id = ?", (following, become, schedule.id))

    def run_now(self, schedule_id: str, run_id: str, now: int) -> ScheduleRun:
        """A run that a person wants, whatever time it is. The caller gives its id, so asking again changes nothing."""
        with self._store.transaction() as db:
            schedule = self.get(schedule_id)
            if self.find_run(run_id) is None:
                status, why = self._admitted(schedule)
                if status == "skipped":
                    raise WrongState(f"{why}: wait for that, stop it, or change the schedule's `overlap`")
                self._write_down(db, schedule, run_id, now, status, run_id=run_id)
        found = self.find_run(run_id)
        assert found is not None
        return found

    def _admitted(self, schedule: ScheduleInfo) -> tuple[ScheduleRunStatus, str | None]:
        """The status of a new run, given the runs before it, and the reason if it is skipped."""
        if schedule.overlap == "allow":
            return "starting", None
        queued = self._queued(schedule.id)
        at_work = self._store.rows(_AT_WORK, (schedule.id,))
        if not at_work and not queued:
            return "starting", None
        if schedule.overlap == "skip":
            going_on = f"thread {at_work[0][0]}" if at_work else "one that was queued"
            return "skipped", f"the run before is still going on: {going_on}"
        if queued >= QUEUE_MOST:
            return "skipped", f"{QUEUE_MOST} runs wait for the one before already"
        return "queued", None

    def _queued(self, schedule_id: str) -> int:
        sql = "SELECT count(*) FROM schedule_runs WHERE schedule = ? AND status = 'queued'"
        return int(self._store.rows(sql, (schedule_id,))[0][0])

    def _write_down(
        self,
        db: sqlite3.Connection,
        schedule: ScheduleInfo,
        key: str,
        due: int,
        status: ScheduleRunStatus,
        why: str | None = None,
        *,
        since: int | None = None,
        run_id: str | None = None,
    ) -> None:
        """`key` tells the run from all others of the schedule. That it is there already means that the clock was set
        back, and this time has come before."""
        name = _derived(schedule.id, schedule.created_at, key)
        ids = (run_id or f"srn_{name}", schedule.id, f"thr_{name}")
        by = "schedule" if run_id is None else "person"
        sql = (
            "INSERT OR IGNORE INTO schedule_runs (id, schedule, thread, due_at, status, by, error, missed_since) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        )
        db.execute(sql, (*ids, due, status, by, why, since))
        db.execute(_TRIM, (schedule.id, schedule.id, RUNS_MOST))

    # What is started.

    @property
    def is_waiting(self) -> bool:
        """Whether a run waits for the one before."""
        return bool(self._store.rows(f"SELECT 1 FROM schedule_runs WHERE {_WAITING} LIMIT 1", ("queued",)))

    def promote(self) -> None:
        """Let queued runs start that no run is before any more. Runs of paused schedules stay queued."""
        waiting = f"SELECT DISTINCT schedule FROM schedule_runs WHERE {_WAITING}"
        for (schedule_id,) in self._store.rows(waiting, ("queued",)):
            schedule = self.get(schedule_id)
            if schedule.status == "paused":
                continue
            if schedule.overlap == "allow":
                self._store.write((_PROMOTE_ALL, (schedule_id,)))
            elif not self._store.rows(_AT_WORK, (schedule_id,)):
                self._store.write((_PROMOTE_ONE, (schedule_id,)))

    def starting(self) -> list[Start]:
        """Every run whose thread is to be made."""
        sql = f"SELECT id, schedule, thread FROM schedule_runs WHERE {_WAITING} ORDER BY seq"
        return [Start(*row) for row in self._store.rows(sql, ("starting",))]

    def started(self, run_id: str, now: int) -> None:
        """Its thread is there. It may even have ended since."""
        sql = "UPDATE schedule_runs SET status = 'started', started_at = ? WHERE id = ? AND status = 'starting'"
        self._store.write((sql, (now, run_id)))

    def failed(self, run_id: str, why: str, now: int) -> None:
        """Its thread cannot be made, however often it is tried."""
        sql = "UPDATE schedule_runs SET status = 'failed', error = ?, ended_at = ? WHERE id = ? AND status = 'starting'"
        self._store.write((sql, (sayable_text(why)[:ERROR_CHARS], now, run_id)))


_PROMOTE_ALL = "UPDATE schedule_runs SET status = 'starting' WHERE schedule = ? AND status = 'queued'"
_PROMOTE_ONE = """
    UPDATE schedule_runs SET status = 'starting'
    WHERE seq = (SELECT min(seq) FROM schedule_runs WHERE schedule = ? AND status = 'queued')
"""


def note(db: sqlite3.Connection, thread_id: str, status: RunStatus, at: int) -> None:
    """A thread stands so, in a transaction of the agency's file. What comes after its run has ended, as when a person
    goes on talking to it, does not concern the schedule that has started it."""
    if status in ENDED:
        db.execute(_ENDED, (status, at, at, thread_id))


def _anchored(wanted: Schedule, now: int) -> Schedule:
    """An interval has a first time, from which it is counted."""
    if wanted.every_ms is None or wanted.at is not None:
        return wanted
    return wanted.model_copy(update={"at": timestamp(now + wanted.every_ms)})


def _first(wanted: Schedule, now: int) -> int:
    """When a schedule with a new time is due first."""
    at = None if wanted.at is None else instant(wanted.at)
    if at is not None and at > now + AHEAD_MOST:
        raise InvalidInput(f"at: {wanted.at} is too far away; ten years from now is the most")
    if wanted.kind == "once" and at is not None and now - LATE_MS <= at <= now:
        return at
    due = wanted.next_after(now)
    if due is None:
        raise InvalidInput(f"at: {wanted.at or wanted.cron} is over, it is {timestamp(now)}; it must be in the future")
    return due


def _derived(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=10).hexdigest()


def _info(row: tuple[Any, ...]) -> tuple[int, ScheduleInfo]:
    seq, schedule_id, body, status, next_at, created_at, updated_at = row
    known = {
        "id": schedule_id,
        "status": status,
        "next_at": None if next_at is None else timestamp(next_at),
        "created_at": created_at,
        "updated_at": updated_at,
    }
    return seq, ScheduleInfo.model_validate({**from_json(body), **known})


def _run(row: tuple[Any, ...]) -> tuple[int, ScheduleRun]:
    seq, run_id, schedule, *times, thread, status, by, error, since = row
    due_at, started_at, ended_at, missed_since = (None if at is None else timestamp(at) for at in (*times, since))
    assert due_at is not None
    return seq, ScheduleRun(
        id=run_id,
        schedule_id=schedule,
        due_at=due_at,
        started_at=started_at,
        ended_at=ended_at,
        thread_id=thread if status in _HAS_THREAD else None,
        status=status,
        by=by,
        error=error,
        missed_since=missed_since,
    )
