"""The agencies that are awake in one agency host. They are opened when they are called, and closed when they have not
been for a while.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from actors.address import Address, Files
from actors.agency.agency import Agency
from actors.agency.context import System
from actors.agency.installation import Installation
from actors.agency.razing import raze
from actors.settings import Settings
from actors.updates import ThreadUpdate
from agency.api.tenancy import AgencyInfo
from agency.errors import Damaged, no_agency
from agency.store.sqlite import is_damage

DELETE = Agency.delete.__name__


class Agencies:
    def __init__(self, settings: Settings, system: System, installation: Installation) -> None:
        self._settings = settings
        self._system = system
        self._installation = installation
        self._files = Files(settings.data_dir)
        self._awake: dict[str, Agency] = {}
        self._used: dict[str, float] = {}
        self._calls: dict[str, int] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}

    async def create(self, info: AgencyInfo) -> None:
        """Make an agency, if it is not there yet."""
        agency = await self._open(info.id, info)
        with self._serving(info.id, agency):
            await agency.check_made_as(info)

    async def call(self, agency_id: str, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call an operation of an agency, which is opened if need be."""
        try:
            agency = await self._open(agency_id)
            if agency.deleting:
                raise no_agency(agency_id)
            with self._serving(agency_id, agency):
                return await agency.call(name, args, kwargs)
        except (Damaged, sqlite3.DatabaseError) as error:
            if name != DELETE or not is_damage(error):
                raise
        return await self._raze(agency_id)

    async def _raze(self, agency_id: str) -> None:
        """Delete an agency that cannot do it itself, because its file is damaged."""
        if (agency := self._awake.get(agency_id)) is not None:
            self._forget(agency_id)
            await agency.close_in_worker()
        await raze(agency_id, self._files, self._installation)

    async def take(self, agency_id: str, updates: Sequence[ThreadUpdate]) -> None:
        """Have an agency write down how far its threads have got."""
        agency = await self._open(agency_id)
        with self._serving(agency_id, agency):
            await agency.take(updates)

    async def lift(self, agency_id: str) -> None:
        """Have an agency tell the threads that it has refused that there is more to spend."""
        agency = await self._open(agency_id)
        with self._serving(agency_id, agency):
            await agency.lift()

    async def run_due(self, agency_id: str) -> None:
        """Have an agency start the threads that its schedules want by now."""
        agency = await self._open(agency_id)
        with self._serving(agency_id, agency):
            await agency.run_due()

    def watched(self) -> frozenset[str]:
        """The agencies whose events a client waits for."""
        return frozenset(agency_id for agency_id, agency in self._awake.items() if agency.watched)

    async def finish(self, agency_id: str) -> None:
        """Have an agency finish what was interrupted."""
        agency = await self._open(agency_id)
        with self._serving(agency_id, agency):
            await agency.finish()

    @contextmanager
    def _serving(self, agency_id: str, agency: Agency) -> Iterator[None]:
        self._calls[agency_id] = self._calls.get(agency_id, 0) + 1
        try:
            yield
        finally:
            if self._awake.get(agency_id) is agency:
                self._calls[agency_id] -= 1
                self._used[agency_id] = time.monotonic()
                if agency.deleted:
                    self._forget(agency_id)

    async def sweep(self, before: float) -> None:
        """Close the agencies that have not been used since then."""
        for agency_id, agency in list(self._awake.items()):
            if not self._calls.get(agency_id) and self._used.get(agency_id, 0.0) <= before:
                self._forget(agency_id)
                await agency.close_in_worker()

    async def close(self) -> None:
        """Close all of them, whatever they are doing: what they have begun is in their files."""
        for agency_id, agency in list(self._awake.items()):
            self._forget(agency_id)
            await agency.close_in_worker()

    def ids(self) -> list[str]:
        return sorted(self._awake)

    async def _open(self, agency_id: str, create: AgencyInfo | None = None) -> Agency:
        while (agency := self._awake.get(agency_id)) is None:
            await self._wake(agency_id, create)
        self._used[agency_id] = time.monotonic()
        return agency

    async def _wake(self, agency_id: str, create: AgencyInfo | None) -> None:
        path = self._files.of(Address(agency_id))
        opening = partial(Agency.open, path, self._settings, self._system, self._installation, create)
        if not self._settings.files.shared:
            self._awake[agency_id] = opening()
        elif (earlier := self._opening.get(agency_id)) is not None:
            await asyncio.wait({earlier})
        else:
            task = self._opening[agency_id] = asyncio.create_task(self._wake_in_worker(agency_id, opening))
            await asyncio.shield(task)

    async def _wake_in_worker(self, agency_id: str, opening: Callable[[], Agency]) -> None:
        """A new file is synced, which takes its time on shared storage."""
        try:
            self._awake[agency_id] = await asyncio.to_thread(opening)
        finally:
            del self._opening[agency_id]

    def _forget(self, agency_id: str) -> None:
        del self._awake[agency_id]
        self._used.pop(agency_id, None)
        self._calls.pop(agency_id, None)
