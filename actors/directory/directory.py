"""The Directory: which thread is awake in which host. One named, detached Ray actor.

Only its order wakes a thread in a host, so a thread has one location. It finds and places, starts hosts and agency
hosts and watches them, and writes nothing down. It may die at any time: Ray starts it again, and it asks the hosts
which threads they have. Everything else is in the files: a run that was in progress, mail that waits, a timer. So a
thread goes on by itself, whatever has died.

This module is what clients, hosts and agency hosts call. What it consists of: `lifecycle` (the lock on the data folder,
starting and stopping), `activations` (where threads are, and waking them) over `fleet` and `placement` (the hosts),
`agency_fleet` (the agency hosts), and `recovery` (what the files tell after a start).
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress

import ray

from actors import logs, process_title
from actors.address import Address, Files
from actors.agency.creation import Creation
from actors.answers import Refusal, answer, unwrap
from actors.background import Background
from actors.caller import Location
from actors.directory.activations import Activations
from actors.directory.agency_fleet import AgencyFleet
from actors.directory.counts import ThreadCounts
from actors.directory.disk import Disk
from actors.directory.lifecycle import STOPPING, Lifecycle
from actors.directory.recovery import Recovery
from actors.directory.server_log import ServerLogLines
from actors.directory.tickets import Holder, Tickets
from actors.file_limit import raise_file_limit
from actors.host.watchdog import BlockedLoop
from actors.sealing import unseal
from actors.settings import Settings
from actors.status import Metrics, Readiness, Status
from actors.system_loader import SystemLoader
from actors.totals import UNITS, Totals
from actors.updates import ThreadUpdate
from agency.api.bodies import ServerLog, ServerLogLine
from agency.errors import AgencyError, Unavailable
from agency.secrets import remember_environment

MAINTENANCE_SECONDS = 5.0
ANNOUNCE_SECONDS = 1.0


class Directory:
    def __init__(self, settings: Settings) -> None:
        process_title.take_over()
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
        self._disk = Disk(self._files)
        self._counts = ThreadCounts(self._files)
        self._background = Background("the directory")
        self._lifecycle = Lifecycle(settings)
        system = SystemLoader(settings)
        self._activations = Activations(settings, self._lifecycle, system.load, self._record, self._background)
        self._agency_fleet = AgencyFleet(settings, self._activations.fleet.clock, self._background)
        self._recovery = Recovery(self._files, self._activations, self._record)
        # When Ray restarts a directory, no client is there to call `start`: the directory orders it itself.
        ray.get_runtime_context().current_actor.start.remote()

    async def start(self) -> None:
        """Find the hosts that are there and what they hold, then whatever else has something to do. The order matters:
        threads are woken only when all hosts that survived are known, so that none is awake twice."""
        process_title.show("Directory", self._settings.namespace)
        if self._lifecycle.started.is_set() or not await self._lifecycle.take_folder():
            return
        self._agency_fleet.start()
        await self._activations.adopt()
        self._lifecycle.started.set()
        self._activations.fleet.keep_warm()
        self._background.go(self._recovery.scan())
        self._background.go(self._activations.alarms.ring())
        self._background.go_on(self._activations.fleet.beat_seconds, self._beat)
        self._background.go_on(min(MAINTENANCE_SECONDS, self._settings.hibernate_after), self._maintain)

    async def _maintain(self) -> None:
        await self._activations.fleet.maintain()

    async def _beat(self) -> None:
        self._agency_fleet.beat()

    async def stop(self) -> None:
        """Put everything to rest and end the hosts; runs in progress carry on after the next start."""
        self._lifecycle.stopping = True
        await self._activations.fleet.stop()
        await self._agency_fleet.stop()

    # Threads.

    async def locate(self, address: Address, missed: int = 0) -> Location | Refusal:
        """Where a thread is awake; it is woken if it is not. `missed` is an activation that was no longer there."""
        return await answer(self._activations.locate(address, missed))

    async def reserve(self, addresses: list[Address]) -> list[Location | None]:
        """The places for threads that agencies are about to make; None for those that are left to `create`."""
        await self._lifecycle.started.wait()
        return [self._activations.reserve(address) for address in addresses]

    async def create(self, creation: Creation, ordered: int) -> Location | Refusal:
        """Make a thread, if it is not there yet, and begin its first run: for what `reserve` does not do, and when
        nothing came of the order with the number that it gave."""
        await self._lifecycle.started.wait()
        return await answer(self._activations.create(creation, ordered))

    async def evict(self, address: Address) -> ThreadUpdate | None:
        """Have a thread closed and forgotten: its file is gone. Returns how far it had got, if it was awake."""
        await self._lifecycle.started.wait()
        return await self._activations.evict(address)

    async def released(
        self, address: Address, activation: int, wake_at: int | None, unconfirmed: ThreadUpdate | None
    ) -> None:
        """A host has closed a thread. The message carries the update that is not known to be written, because the host
        may be ended as soon as it is empty."""
        await self._lifecycle.started.wait()
        if unconfirmed is not None:
            self._record([unconfirmed])
        self._activations.released(address, activation, wake_at)

    async def count(self, host: str, totals: Totals) -> None:
        """A host tells what it has counted so far."""
        await self._lifecycle.started.wait()
        self._activations.fleet.count(host, totals)

    async def loop_blocked(self, host: str, by: BlockedLoop) -> None:
        """The watchdog of a host says that its event loop is held up, so that the host itself cannot say anything."""
        self._activations.fleet.loop_blocked(host, by)

    async def where(self, addresses: list[Address]) -> dict[Address, str]:
        """The hosts of the threads that are awake."""
        await self._lifecycle.started.wait()
        locations = self._activations.locations
        return {address: locations[address].host for address in addresses if address in locations}

    async def hosts_of(self, agency: str) -> list[str]:
        """The hosts that have threads of an agency awake."""
        await self._lifecycle.started.wait()
        return self._activations.hosts_of(agency)

    def _record(self, updates: Sequence[ThreadUpdate]) -> None:
        """Have updates written into the agencies' files."""
        self._agency_fleet.record(updates)

    # Agencies.

    async def agency_hosts(self) -> tuple[str, ...]:
        """The agency hosts, in the order by which an agency's id tells which one it lives in."""
        return self._agency_fleet.names

    async def announce(self, agency: str | None) -> None:
        """Tell all hosts that an agency's terms have changed, or may have for any of them. A host that does not answer
        has died, or gets the message before anything that is sent to it later."""
        await self._lifecycle.started.wait()
        calls = [handle.terms_changed.remote(agency) for handle in self._activations.fleet.handles]
        with suppress(TimeoutError):
            async with asyncio.timeout(ANNOUNCE_SECONDS):
                await asyncio.gather(*calls, return_exceptions=True)

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
        if (refused := await self._agency_fleet.problem()) is not None:
            if refused.code == Unavailable.code:
                return refused.message
            unwrap(refused)
        return await self._disk.problem()

    async def status(self) -> Status:
        await self._lifecycle.started.wait()
        threads = await asyncio.to_thread(self._files.all_threads)
        fleet, locations = self._activations.fleet, self._activations.locations
        hosts, agency_hosts = await asyncio.gather(fleet.host_statuses(), self._agency_fleet.statuses())
        return Status(
            nodes=fleet.node_statuses(),
            hosts=hosts,
            agency_hosts=agency_hosts,
            agencies=tuple(sorted(agency for each in agency_hosts for agency in each.agencies)),
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
