"""What an agency host does for agencies (their `Installation`): it passes their orders on to hosts and threads, and
calls them when they have something to do that no client asks for: schedules that are due, threads that may spend again,
and what was interrupted when a process died.

None of this may be lost with a task that fails: schedules are tried again, what could not be finished is, too, and all
of it is in the agency's file, where the next process finds it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from ray.exceptions import RayError

from actors.address import Address, Files
from actors.agency.creation import Creation
from actors.agency_host.agencies import Agencies
from actors.agency_host.orders import Orders
from actors.agency_host.turns import Turns
from actors.alarms import Alarms
from actors.answers import NotHere, unwrap
from actors.background import Background
from actors.caller import Caller
from actors.updates import ThreadUpdate
from agency.children.parcels import Report
from agency.clock import now_ms
from agency.errors import AgencyError, Damaged, NotFound
from agency.local import HOPELESS

log = logging.getLogger(__name__)

END_RUN_SECONDS = 2.0
SCHEDULES_AGAIN_MS = 2_000
FINISH_AGAIN_SECONDS = 2.0


class AgencyServices:
    def __init__(
        self,
        files: Files,
        caller: Caller,
        orders: Orders,
        usable_agencies: Callable[[], Awaitable[Agencies]],
        turns: Turns,
        background: Background,
    ) -> None:
        self._files = files
        self._caller = caller
        self._orders = orders
        self._usable_agencies = usable_agencies
        self._turns = turns
        self._background = background
        self._to_finish: set[str] = set()
        self.schedule_alarms = Alarms(lambda address: background.go(self._run_schedules(address)))
        """When agencies have schedules to run."""

    # What agencies order.

    async def create(self, creation: Creation) -> None:
        """Make a thread, if it is not there yet, and begin its first run. If it cannot be made now, its agency is
        called to try it again."""
        try:
            await self._orders.create(creation)
        except HOPELESS:
            raise
        except AgencyError:
            self._finish_soon(creation.metadata.agency_id)
            raise

    async def end_run(self, address: Address) -> None:
        """Have the run of a thread that is being deleted end, if the thread is awake: observers and live clients are
        told of the end. If that takes long or fails, the thread is deleted all the same."""
        with suppress(TimeoutError, AgencyError, RayError):
            async with asyncio.timeout(END_RUN_SECONDS):
                where = await self._caller.ask_directory("where", [address])
                if (name := where.get(address)) is not None:
                    host = await self._caller.host_named(name)
                    answered: Any = await host.call.remote(address, "cancel_for_deletion", (), {})
                    if not isinstance(answered, NotHere):
                        unwrap(answered)

    async def evict(self, address: Address) -> ThreadUpdate | None:
        """Have a thread closed and forgotten: its file is gone. Returns how far it had got, if it was awake."""
        latest: ThreadUpdate | None = await self._caller.ask_directory("evict", address)
        return latest

    async def announce(self, agency: str) -> None:
        """Tell all hosts that an agency's terms have changed."""
        await self._caller.ask_directory("announce", agency)

    async def lift(self, address: Address) -> None:
        """Tell a thread that there is more to spend, if it still exists."""
        with suppress(NotFound):
            await self._caller.call(address, "budget_lifted")

    async def report(self, agency: str, report: Report) -> None:
        """Hand a report to a thread of an agency, if it still exists."""
        with suppress(NotFound):
            await self._caller.call(Address(agency, report.to), "receive", (report,))

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

    def _finish_soon(self, agency: str) -> None:
        if agency not in self._to_finish:
            self._to_finish.add(agency)
            self._background.go(self._finish_later(agency))

    async def _finish_later(self, agency: str) -> None:
        await asyncio.sleep(FINISH_AGAIN_SECONDS)
        self._to_finish.discard(agency)  # should it fail again, it is called again
        await self.finish(agency)
