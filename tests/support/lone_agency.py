"""An agency without the rest of an installation, and with a clock that tests set: what it orders is written down.

It can die at any moment: before or after any commit, before or after any thread that it has made. What lasts then is
its file, and the threads that were made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Literal

import pytest

from actors import Settings
from actors.address import Address
from actors.agency import access, catalogue, scheduling, threads
from actors.agency.agency import Agency
from actors.agency.agency_file import AgencyFile
from actors.agency.creation import Creation
from actors.agency.peek import peek_due
from actors.updates import ThreadUpdate
from agency.api.tenancy import AgencyInfo
from agency.children.parcels import Report
from agency.errors import AgencyError
from agency.events import timestamp
from agency.schedules.occurrences import instant
from agency.schedules.schedule import ScheduleInfo, ScheduleRun
from agency.turn.state import RunStatus
from tests.support.scripted_system import system

MONDAY = instant("2027-01-04T09:00:00Z")
MINUTE = 60_000
HOUR = 60 * MINUTE


class Died(BaseException):
    """What nothing catches."""


class LoneAgency:
    def __init__(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, storage: Literal["local", "shared"] = "local"
    ) -> None:
        self.now = self.began = MONDAY
        self.made: dict[str, Creation] = {}
        """The threads that were made, whoever has died since."""
        self.trouble: AgencyError | None = None
        """What making a thread fails with."""
        self.bell: int | None = None
        """When the agency wants to be woken."""
        self.steps = 0
        self.dies_at = -1
        self._settings = Settings(system="tests.support.scripted_system:system", data_dir=path, storage=storage)
        self._path = path / "agencies" / "bakery" / "agency.db"
        for module in (access, catalogue, scheduling, threads):
            monkeypatch.setattr(module, "now_ms", lambda: self.now)
        commit = AgencyFile.transaction

        @contextmanager
        def mortal(file: AgencyFile) -> Iterator[Connection]:
            self.step()
            with commit(file) as db:
                yield db
            self.step()

        monkeypatch.setattr(AgencyFile, "transaction", mortal)
        self.agency = self._open(AgencyInfo(id="bakery", name="Bakery", created_at=timestamp(self.now)))

    def _open(self, create: AgencyInfo | None = None) -> Agency:
        return Agency.open(self._path, self._settings, lambda: system, self, create)

    def allow(self, **limits: int) -> None:
        """Begin again with other limits."""
        self._settings = self._settings.model_copy(update=limits)
        self.reopen()

    def step(self) -> None:
        """A moment at which it may die."""
        self.steps += 1
        if self.steps == self.dies_at:
            raise Died

    def reopen(self) -> None:
        """Die, and begin again as the directory does."""
        self.agency.close()
        self.bell = peek_due(self._path)
        self.agency = self._open()

    # What an agency asks of an installation.

    async def create(self, creation: Creation) -> None:
        self.step()
        if self.trouble is not None:
            raise self.trouble
        self.made.setdefault(creation.metadata.id, creation)
        self.step()

    async def end_run(self, address: Address) -> None: ...

    async def evict(self, address: Address) -> ThreadUpdate | None:
        return None

    async def announce(self, agency: str) -> None: ...

    def lift_soon(self, agency: str) -> None: ...

    async def lift(self, address: Address) -> None: ...

    async def report(self, agency: str, report: Report) -> None: ...

    async def give_way(self, agency: str) -> None: ...

    def ring_at(self, agency: str, due: int | None) -> None:
        self.bell = due

    # What tests ask of it.

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return await self.agency.call(method, args, kwargs)

    async def schedule(self, schedule_id: str = "s", **fields: Any) -> ScheduleInfo:
        """A new one, of the clerk, every hour unless it says otherwise."""
        timed = {} if "kind" in fields else {"kind": "interval", "everyMs": HOUR}
        known = {"name": "rolls", "agentType": "clerk", "message": "Bake!", **timed, **fields}
        made: ScheduleInfo = await self.call("create_schedule", schedule_id, known)
        return made

    async def change(self, status: str | None = None, /, **fields: Any) -> ScheduleInfo:
        changed: ScheduleInfo = await self.call("change_schedule", "s", fields, status)
        return changed

    async def info(self) -> ScheduleInfo:
        found: ScheduleInfo = await self.call("schedule", "s")
        return found

    async def run_now(self, run_id: str = "mine") -> ScheduleRun:
        run: ScheduleRun = await self.call("run_schedule", "s", run_id)
        return run

    async def runs(self) -> list[ScheduleRun]:
        """The oldest first."""
        return list(reversed((await self.call("schedule_runs", "s", 0, 1_000)).runs))

    async def wait_until(self, now: int) -> None:
        """Let time pass, and have the agency woken as often as it wants to be."""
        while self.bell is not None and self.bell <= now:
            self.now = max(self.now, self.bell)
            self.bell = None
            await self.agency.run_due()
        self.now = max(self.now, now)

    async def wait(self, ms: int = 0) -> None:
        await self.wait_until(self.now + ms)

    async def tell(self, thread_id: str, status: RunStatus, seq: int = 9) -> None:
        """What a thread's host tells of it."""
        told = ThreadUpdate(Address("bakery", thread_id), timestamp(self.now), seq, status, None, self.now)
        await self.agency.take([told])

    async def end(self, status: RunStatus = "completed", seq: int = 9) -> None:
        """All threads that are at work end so."""
        for run in await self.runs():
            if run.status == "started":
                assert run.thread_id is not None
                await self.tell(run.thread_id, status, seq)


async def never_dying(office: LoneAgency, *steps: Callable[[], Awaitable[object]]) -> None:
    """Take steps; if it dies in one, that is taken again, as whoever has asked for it does."""
    for step in steps:
        while True:
            try:
                await step()
                break
            except Died:
                office.reopen()
