"""The Directory: which thread is awake in which host. One named, detached Ray actor; the agencies live in its process.

Only its order wakes a thread in a host, so a thread has one location. The directory may die at any time: Ray starts it
again, and it asks the hosts which threads they have. Everything else is in the files: a run that was in progress, mail
that waits, a timer. So a thread goes on by itself, whatever has died.

This module is what clients and hosts call. What it consists of: `lifecycle` (the lock on the data folder, starting and
stopping), `activations` (where threads are, and waking them) over `fleet` and `placement` (the hosts), `recovery` (what
the files tell after a start), `agencies` and `agency_services` (the agencies, what is done for them), `turns` (whose
call is next), and `index_writer` and `index_refresh` (what hosts report about their threads).
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import time
from typing import Any

import ray

from actors import logs
from actors.address import Address, Files
from actors.agency.agency import is_urgent, reads_index
from actors.answers import Refusal, answer, unwrap
from actors.background import Background, to_the_end
from actors.caller import Location
from actors.directory.activations import Activations
from actors.directory.agencies import Agencies
from actors.directory.agency_services import AgencyServices
from actors.directory.counts import ThreadCounts
from actors.directory.disk import Disk
from actors.directory.index_refresh import IndexRefresh
from actors.directory.index_writer import REST, IndexWriter
from actors.directory.lifecycle import STOPPING, Lifecycle
from actors.directory.recovery import Recovery
from actors.directory.server_log import ServerLogLines
from actors.directory.system_loader import SystemLoader
from actors.directory.tickets import Holder, Tickets
from actors.directory.turns import Turns
from actors.file_limit import raise_file_limit
from actors.host.watchdog import BlockedLoop
from actors.sealing import unseal
from actors.settings import Settings
from actors.status import Metrics, Readiness, Status
from actors.totals import UNITS, Totals
from actors.updates import ThreadUpdate, UpdatesTaken
from agency.api.bodies import ServerLog, ServerLogLine
from agency.api.tenancy import AgencyInfo
from agency.errors import AgencyError
from agency.secrets import remember_environment

MAINTENANCE_SECONDS = 5.0
LARGE = 1_000_000
"""Bytes of a call, of which reading them is a turn of its own."""

LOADING_SECONDS = 1.0
"""How long a readiness check waits for the system to be imported."""


class Directory:
    def __init__(self, settings: Settings) -> None:
        raise_file_limit()
        os.environ.update(
            unseal(settings.data_dir, settings.environment)
        )  # the system's module may need it to be imported
        remember_environment()
        logs.set_up(settings.log_level)
        self._log = ServerLogLines()
        logging.getLogger().addHandler(self._log)
        self._settings = settings
        self._files = Files(settings.data_dir)
        self._began = time.monotonic()
        self._tickets = Tickets()
        self._turns = Turns(settings.calls_most, settings.calls_bytes)
        self._disk = Disk(self._files)
        self._counts = ThreadCounts(self._files)
        self._background = Background("the directory")
        self._lifecycle = Lifecycle(settings)
        self._system = SystemLoader(settings)
        self._activations = Activations(settings, self._lifecycle, self._system.load, self._record, self._background)
        self._services = AgencyServices(
            self._files, self._activations, self._usable_agencies, self._turns, self._background
        )
        self._agencies = Agencies(settings, self._system.loaded, self._services)
        self._index = IndexWriter(self._agencies, self._background, 0.0 if settings.files.shared else REST)
        self._refresh = IndexRefresh(self._activations, self._index)
        self._recovery = Recovery(self._files, self._activations, self._services, self._record, self._background)
        # When Ray restarts a directory, no client is there to call `start`: the directory orders it itself.
        ray.get_runtime_context().current_actor.start.remote()

    async def start(self) -> None:
        """Find the hosts that are there and what they hold, then whatever else has something to do. The order matters:
        threads are woken only when all hosts that survived are known, so that none is awake twice."""
        if self._lifecycle.started.is_set() or not await self._lifecycle.take_folder():
            return
        await self._activations.adopt()
        self._lifecycle.started.set()
        self._activations.fleet.keep_warm()
        self._background.go(self._recovery.scan())
        self._background.go(self._activations.alarms.ring())
        self._background.go(self._services.schedule_alarms.ring())
        self._background.go_on(min(MAINTENANCE_SECONDS, self._settings.hibernate_after), self._maintain)

    async def _maintain(self) -> None:
        await self._activations.fleet.maintain()
        await self._agencies.sweep(time.monotonic() - self._settings.hibernate_after)

    async def stop(self) -> None:
        """Put everything to rest and end the hosts; runs in progress carry on after the next start."""
        self._lifecycle.stopping = True
        await self._activations.fleet.stop()

    # Threads.

    async def locate(self, address: Address, missed: int = 0) -> Location | Refusal:
        """Where a thread is awake; it is woken if it is not. `missed` is an activation that was no longer there."""
        return await answer(self._activations.locate(address, missed))

    async def released(
        self, address: Address, activation: int, wake_at: int | None, unconfirmed: ThreadUpdate | None
    ) -> None:
        """A host has closed a thread. The message carries the update that the directory has not confirmed yet, because
        the host may be ended as soon as it is empty."""
        await self._lifecycle.started.wait()
        if unconfirmed is not None:
            self._record([unconfirmed])
        self._activations.released(address, activation, wake_at)

    async def take_updates(self, host: str, updates: list[ThreadUpdate], totals: Totals) -> UpdatesTaken:
        """A host tells how far its threads have got. What is not in `left` is written when this returns."""
        await self._lifecycle.started.wait()
        self._activations.fleet.count(host, totals)
        left = await self._index.write(updates)
        return UpdatesTaken(self._agencies.watched(), left)

    async def loop_blocked(self, host: str, by: BlockedLoop) -> None:
        """The watchdog of a host says that its event loop is held up, so that the host itself cannot say anything."""
        self._activations.fleet.loop_blocked(host, by)

    async def where(self, addresses: list[Address]) -> dict[Address, str]:
        """The hosts of the threads that are awake."""
        await self._lifecycle.started.wait()
        locations = self._activations.locations
        return {address: locations[address].host for address in addresses if address in locations}

    def _record(self, updates: list[ThreadUpdate]) -> None:
        """Write updates into the agencies' files, in the background and as often as it takes."""
        self._background.go(self._index.write_until_done(updates))

    # Agencies.

    async def create_agency(self, info: AgencyInfo) -> Refusal | None:
        """Make an agency, if it is not there yet."""

        async def create() -> None:
            await (await self._usable_agencies()).create(info)

        return await answer(create())

    async def call_agency(self, agency: str, name: str, packed: bytes) -> Any:
        """Call an operation of an agency, when it is the agency's turn."""

        async def call() -> Any:
            if is_urgent(name):
                await self._turns.again(agency)
                return await self._serve(agency, name, packed)
            async with self._turns.call(agency, len(packed)):
                return await to_the_end(self._serve(agency, name, packed))

        return await answer(call())

    async def _serve(self, agency: str, name: str, packed: bytes) -> Any:
        agencies = await self._usable_agencies()
        if reads_index(name):
            await self._refresh.refresh(agency)
            await self._turns.again(agency)
        args, kwargs = pickle.loads(packed)  # as Ray does with all arguments
        if len(packed) > LARGE:
            await self._turns.again(agency)
        return await agencies.call(agency, name, args, kwargs)

    async def _usable_agencies(self) -> Agencies:
        """The agencies, once they can work: the directory has started and the system is imported."""
        await self._lifecycle.running()
        await self._system.load()
        return self._agencies

    # Tickets.

    async def issue_ticket(self, digest: str, grant: str, seconds: float, holder: Holder) -> None:
        self._tickets.add(digest, grant, seconds, holder)

    async def redeem_ticket(self, digest: str) -> str | None:
        return self._tickets.take(digest)

    # The server's log.

    async def take_log(self, lines: list[ServerLogLine]) -> None:
        """A host has logged something that gateways show."""
        self._log.add(lines)

    async def server_log(self, after: int, wait: float) -> ServerLog:
        """What was logged after a line, as soon as there is something, or after so many seconds."""
        return await self._log.after(after, wait)

    # Looking at it.

    async def describe(self) -> Settings | Refusal:
        """What it was started with, or why it may not use the data folder."""
        await self._lifecycle.decided.wait()
        return self._lifecycle.refused or self._settings

    async def readiness(self) -> Readiness:
        """Whether a thread could run now. It answers soon, whatever goes on."""
        fleet = self._activations.fleet
        try:
            waits, told, broken = await self._waits_for(), "", False
            if not waits and not fleet.ready:
                waits, told, broken = fleet.problem.message, fleet.problem.told, fleet.is_broken
        except AgencyError as error:
            waits, told, broken = str(error), error.told, True
        return Readiness(ready=not waits, hosts=fleet.ready, reason=waits, told=told, broken=broken)

    async def _waits_for(self) -> str:
        """What must come before any host; raises if it never will."""
        if self._lifecycle.refused is not None:
            unwrap(self._lifecycle.refused)
        if self._lifecycle.stopping:
            return STOPPING
        if not self._lifecycle.started.is_set():
            return "the directory is still looking for what is there"
        try:
            async with asyncio.timeout(LOADING_SECONDS):
                await self._system.load()
        except TimeoutError:
            return "the system is still being loaded"
        return await self._disk.problem()

    async def status(self) -> Status:
        await self._lifecycle.started.wait()
        threads = await asyncio.to_thread(self._files.all_threads)
        fleet, locations = self._activations.fleet, self._activations.locations
        return Status(
            nodes=fleet.node_statuses(),
            hosts=await fleet.host_statuses(),
            agencies=tuple(self._agencies.ids()),
            awake=len(locations),
            hibernated=sum(address not in locations for address in threads),
            alarms={str(address): due for address, due in self._activations.alarms.all().items()},
        )

    async def metrics(self) -> Metrics:
        await self._lifecycle.started.wait()
        counted = await self._counts.current()
        fleet, awake = self._activations.fleet, len(self._activations.locations)
        sums = fleet.totals.all()
        cost = sums.pop("cost_units", 0) / UNITS
        return Metrics(
            **sums,
            cost_usd=cost,
            uptime_seconds=time.monotonic() - self._began,
            hosts={"starting": fleet.starting, "ready": fleet.ready, "silent": fleet.silent},
            awake=awake,
            hibernated=max(0, counted.threads - awake),
            approvals_waiting=counted.waiting,
            alarms=len(self._activations.alarms.all()),
        )
