"""What the directory does for agencies (their `Installation`): it passes their orders on to hosts and threads, and
calls them when they have something to do that no client asks for: schedules that are due, threads that may spend again,
and what was interrupted when the directory died.

None of this may be lost with a task that fails: schedules are tried again, and the rest is in the agency's file, where
the next directory finds it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from actors.address import Address, Files
from actors.agency.creation import Creation
from actors.background import Background
from actors.directory.activations import Activations
from actors.directory.agencies import Agencies
from actors.directory.alarms import Alarms
from actors.directory.turns import Turns
from actors.updates import ThreadUpdate
from agency.children.parcels import Report
from agency.clock import now_ms
from agency.errors import AgencyError, Damaged

log = logging.getLogger(__name__)

ANNOUNCE_SECONDS = 1.0
END_RUN_SECONDS = 2.0
SCHEDULES_AGAIN_MS = 2_000


class AgencyServices:
    def __init__(
        self,
        files: Files,
        activations: Activations,
        usable_agencies: Callable[[], Awaitable[Agencies]],
        turns: Turns,
        background: Background,
    ) -> None:
        self._files = files
        self._activations = activations
        self._usable_agencies = usable_agencies
        self._turns = turns
        self._background = background
        self.schedule_alarms = Alarms(lambda address: background.go(self._run_schedules(address)))
        """When agencies have schedules to run."""

    # What agencies order.

    async def create(self, creation: Creation) -> None:
        """Make a thread, if it is not there yet, and begin its first run."""
        await self._activations.create(creation)

    async def end_run(self, address: Address) -> None:
        """Have the run of a thread that is being deleted end, if the thread is awake: observers and live clients are
        told of the end. If that takes long or fails, the thread is deleted all the same."""
        with suppress(TimeoutError, AgencyError):
            async with asyncio.timeout(END_RUN_SECONDS):
                await self._activations.call_awake(address, "cancel_for_deletion")

    async def evict(self, address: Address) -> ThreadUpdate | None:
        """Have a thread closed and forgotten: its file is gone. Returns how far it had got, if it was awake."""
        return await self._activations.evict(address)

    async def announce(self, agency: str) -> None:
        """Tell all hosts that an agency's terms have changed. A host that does not answer has died, or gets the message
        before anything that is sent to it later."""
        calls = [entry.handle.terms_changed.remote(agency) for entry in self._activations.fleet.ready_hosts]
        with suppress(TimeoutError):
            async with asyncio.timeout(ANNOUNCE_SECONDS):
                await asyncio.gather(*calls, return_exceptions=True)

    async def lift(self, address: Address) -> None:
        """Tell a thread that there is more to spend, if it still exists."""
        await self._activations.call(address, "budget_lifted")

    async def report(self, agency: str, report: Report) -> None:
        """Hand a report to a thread of an agency, if it still exists."""
        await self._activations.call(Address(agency, report.to), "receive", report)

    async def give_way(self, agency: str) -> None:
        """Let other agencies have their turns."""
        await self._turns.again(agency)

    # When agencies are called without a client.

    def lift_soon(self, agency: str) -> None:
        """Have the agency's `lift` called, in the background."""
        self._background.go(self._lift(agency))

    async def _lift(self, agency: str) -> None:
        try:
            await (await self._usable_agencies()).lift(agency)
        except AgencyError as error:
            log.warning("agency %s cannot tell its threads that they may go on: %s", agency, error)

    def ring_at(self, agency: str, due: int | None) -> None:
        """When an agency's schedules are due next; None is never."""
        if due is None:
            self.schedule_alarms.drop(Address(agency))
        else:
            self.schedule_alarms.set(Address(agency), due)

    async def _run_schedules(self, address: Address) -> None:
        """Have an agency start what its schedules want; if it cannot now, in a while."""
        try:
            await (await self._usable_agencies()).run_due(address.agency)
        except Damaged as error:
            log.warning("agency %s cannot run its schedules: %s", address, error)
        except Exception as error:  # whatever it was, schedules go on
            if self._files.of(address).exists():  # else the agency was deleted
                log.warning("agency %s cannot run its schedules yet: %r", address, error)
                self.schedule_alarms.no_later(address, now_ms() + SCHEDULES_AGAIN_MS)

    async def finish(self, agency: str) -> None:
        """Have an agency finish what was interrupted: threads that it was making or deleting."""
        try:
            await (await self._usable_agencies()).finish(agency)
        except AgencyError as error:
            log.warning("agency %s cannot finish what it began: %s", agency, error)
