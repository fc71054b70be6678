"""Activations: which thread is awake in which host, and everything that wakes one.

Only the directory's order wakes a thread, and orders for one thread are given one after the other (`_moving`), so a
thread is awake in at most one host that the directory takes for alive. (A new thread's order is given by its agency,
which asks for a place and a number first: `reserve`.) An order has a number. It is unique and growing
over all directories of an installation, because it starts from the clock. A host that lets a thread go names the
activation: if a newer one has been ordered meanwhile, the message is late and is ignored. A caller that did not find a
thread names the activation it missed: if the directory knows a newer one, the caller's knowledge was old; if not, the
thread is woken again.

Nothing here lasts. A new directory asks the hosts what they have (`adopt`), and looks into the files of the rest
(`recovery`). If a host that was given up for dead is still alive somewhere, two hosts hold one thread; then the epoch
in the thread's file decides, and the older activation can write no more.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from ray.exceptions import RayError

from actors.address import Address, Files
from actors.agency.creation import Creation
from actors.agency.peek import has_thread
from actors.alarms import Alarms
from actors.answers import Refusal, unwrap
from actors.background import Background
from actors.caller import Location
from actors.directory.fleet import Fleet
from actors.directory.host_entry import HostEntry
from actors.directory.lifecycle import Lifecycle
from actors.directory.locations import Locations
from actors.directory.poison import CrashCounts
from actors.host.host import Misplaced, Warned
from actors.host.watchdog import BlockedLoop
from actors.settings import Settings
from actors.updates import ThreadUpdate, update_from_file
from agency.clock import now_ms
from agency.define.system import AgentSystem
from agency.errors import AgencyError, Damaged, NotFound, Poisoned, StaleActivation, StoreError, Unavailable
from agency.local import HOPELESS
from agency.store.peek import Glance, glance, latest_order
from agency.thread.parking import park

log = logging.getLogger(__name__)

ATTEMPTS = 20
"""How many hosts may die under one activation before the caller is told."""

WAKING_AT_ONCE = 16
ISOLATED_AT_ONCE = 2
ISOLATED_SECONDS = 5.0
WAKE_AGAIN_MS = 2_000
MENDED_MS = 60_000
"""How long after a thread could not be woken for a damaged file, its own or its agency's, it is tried again: a person
may have put a backup in its place."""


class TooLate:
    """A host fell silent before it carried out an order."""


class Activations:
    def __init__(
        self,
        settings: Settings,
        lifecycle: Lifecycle,
        load_system: Callable[[], Awaitable[AgentSystem]],
        record: Callable[[list[ThreadUpdate]], None],
        background: Background,
    ) -> None:
        self._settings = settings
        self._lifecycle = lifecycle
        self._load_system = load_system
        self._record = record  # writes updates into the agencies' files, in the background
        self._background = background
        self._files = Files(settings.data_dir)
        self._crashes = CrashCounts(settings.poison_after)
        self._locations = Locations()
        self._moving: dict[Address, asyncio.Task[Location]] = {}
        self._opening: dict[Address, str] = {}  # being opened, in which host
        self._warnings: dict[Address, Warned] = {}  # of processes that a thread's own code has held up
        self._isolated: dict[Address, float] = {}  # given a host to itself, since when
        self._numbers = itertools.count(time.time_ns())
        self._waking = asyncio.Semaphore(WAKING_AT_ONCE)
        self.alarms = Alarms(lambda address: self._background.go(self._wake(address)))
        """When threads that are asleep have to be awake again."""
        self.fleet = Fleet(settings, self._host_died)

    @property
    def locations(self) -> Mapping[Address, Location]:
        return self._locations.all

    async def adopt(self) -> None:
        """Take over the hosts that an earlier directory has started, with their threads."""
        self.fleet.orders_from = next(self._numbers)
        for address, location in (await self.fleet.adopt()).items():
            self._locations.put(address, location)

    def hosts_of(self, agency: str) -> list[str]:
        """The hosts that have threads of an agency awake, as far as they answer."""
        return [host for host in self._locations.hosts_of(agency) if self.fleet.answers(host)]

    # Finding and waking.

    async def locate(self, address: Address, missed: int = 0) -> Location:
        """Where a thread is awake; it is woken if it is not. `missed` is an activation that was no longer there."""
        await self._lifecycle.started.wait()
        location = self._locations.get(address)
        if address not in self._moving:
            if location is not None and location.activation != missed:
                return location
            if not self._files.of(address).exists():
                raise await self._missing(address)
        return await self._move(address)

    async def _missing(self, address: Address) -> AgencyError:
        """Why there is no thread where one was looked for: there is none, or what was there is lost."""
        if await asyncio.to_thread(has_thread, self._files.of(Address(address.agency)), address.thread):
            return Damaged(
                f"{self._files.of(address)} is missing or empty, and the agency knows of events of its thread"
            )
        return NotFound(f"there is no thread {address.thread!r} in agency {address.agency!r}")

    def reserve(self, address: Address) -> Location | None:
        """The place for a thread that its agency is about to make, which then orders the host to make it; None if that
        is better left to `create`. What the host does with the order is not heard of here: the thread counts as awake,
        and a caller who does not find it asks again."""
        if self._lifecycle.stopping or address in self._moving or self._crashes.needs_own_host(address):
            return None
        known = self._locations.get(address)
        host = self.fleet.take(address) if known is None else known.host if self.fleet.answers(known.host) else None
        if host is None:
            return None
        if known is None:
            self.fleet.totals.add("activations")
        self.alarms.drop(address)
        location = Location(host, next(self._numbers))
        self._locations.put(address, location)
        return location

    async def create(self, creation: Creation, ordered: int) -> Location:
        """Make a thread, if it is not there yet, and begin its first run. `ordered` is the order to a host to make it
        that nothing came of: a host that has fallen silent before is left."""
        address = Address(creation.metadata.agency_id, creation.metadata.id)
        known = self._locations.get(address)
        if known is not None and known.activation == ordered and address not in self._moving:
            entry = self.fleet.get(known.host)
            if entry is None or (entry.slot.silent and not await self._is_carried_out(address, ordered)):
                self._leave(address, known)
        return await self._move(address, creation)

    async def _move(self, address: Address, create: Creation | None = None) -> Location:
        """Wake a thread, once however many callers ask for it. An order to create it is always given: it may carry
        messages that the activation under way does not."""
        self._lifecycle.check_not_stopping()
        under_way = self._moving.get(address)
        if under_way is not None and create is None:
            return await asyncio.shield(under_way)
        while (under_way := self._moving.get(address)) is not None:
            await asyncio.wait({under_way})
        task = asyncio.create_task(self._activate(address, create), name=f"wake {address}")
        self._moving[address] = task
        task.add_done_callback(lambda done: self._moved(address, done))
        return await asyncio.shield(task)

    def _moved(self, address: Address, task: asyncio.Task[Location]) -> None:
        if self._moving.get(address) is task:
            del self._moving[address]
        if not task.cancelled():
            task.exception()  # the callers get it; if none is left, asyncio must not complain

    async def _activate(self, address: Address, create: Creation | None) -> Location:
        dedicated = create is not None and create.blueprint.isolation == "dedicated"
        for _ in range(ATTEMPTS):
            if self._crashes.is_poison(address):
                await self._park(address)
            current = self._locations.get(address)
            alone = dedicated or self._isolate(address)
            entry = await self.fleet.host_for(address, current.host if current is not None else None, alone=alone)
            location = Location(entry.name, next(self._numbers))
            try:
                answered = await self._order(entry, address, location.activation, create)
            except RayError:
                await self.fleet.clean_up(entry)  # counts the crash, so the next round may find a poisonous thread
                continue
            if isinstance(answered, Misplaced | Refusal | TooLate):
                self._leave(address, location)
            if isinstance(answered, Misplaced):
                dedicated = True
                continue
            if isinstance(answered, TooLate) or await self._is_behind(address, location.activation, answered):
                continue
            if isinstance(answered, Refusal) and answered.code == NotFound.code and create is None:
                raise await self._missing(address)  # there is a file, and no thread in it
            unwrap(answered)
            self._warnings.pop(address, None)
            if address not in self._locations.all:
                self.fleet.totals.add("activations")
            self._locations.put(address, location)
            self.alarms.drop(address)
            return location
        raise Unavailable(f"{address} cannot be woken: its host died {ATTEMPTS} times")

    async def _order(
        self, entry: HostEntry, address: Address, activation: int, create: Creation | None
    ) -> Misplaced | Refusal | TooLate | None:
        """Order a host to wake a thread. If the host falls silent before it has opened the thread's file, the order is
        taken back: the next one has a later number, and the file admits no earlier one then."""
        self._opening[address] = entry.name
        try:
            alone, warning = entry.slot.role == "dedicated", self._warnings.get(address)
            given = entry.handle.activate.remote(address, activation, create, alone, warning)
            ordered: asyncio.Future[Misplaced | Refusal | None] = asyncio.wrap_future(given.future())
            either: set[asyncio.Future[Any]] = {ordered, entry.pulse.silence}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not ordered.done() and not await self._is_there(address, entry, activation):
                ordered.add_done_callback(lambda late: late.cancelled() or late.exception())
                return TooLate()
            return await ordered
        finally:
            del self._opening[address]

    async def _is_there(self, address: Address, entry: HostEntry, activation: int) -> bool:
        """Whether a host has opened a thread as it was told to, though it has not said so, or had it before. Then its
        run may be at work there, and goes on elsewhere only when that host is gone."""
        current = self._locations.get(address)
        return (current is not None and current.host == entry.name) or await self._is_carried_out(address, activation)

    async def _is_carried_out(self, address: Address, activation: int) -> bool:
        """Whether an order has reached a thread's file."""
        try:
            return await asyncio.to_thread(latest_order, self._files.of(address)) == activation
        except (sqlite3.Error, StoreError):
            return True  # it may be writing right now

    async def _is_behind(self, address: Address, activation: int, answered: Refusal | None) -> bool:
        """Whether the file has seen a later order, as when this machine's clock was put back. Later numbers follow."""
        if answered is None or answered.code != StaleActivation.code:
            return False
        latest = await asyncio.to_thread(latest_order, self._files.of(address))
        if latest > activation:
            self._numbers = itertools.count(latest + 1)
        return latest > activation

    def _isolate(self, address: Address) -> bool:
        """Whether a thread that may be poison gets a host to itself now. Only a few do at a time: each is a process."""
        now = time.monotonic()
        self._isolated = {known: since for known, since in self._isolated.items() if now - since < ISOLATED_SECONDS}
        full = address not in self._isolated and len(self._isolated) >= ISOLATED_AT_ONCE
        if full or not self._crashes.needs_own_host(address):
            return False
        self._isolated[address] = now
        return True

    # Leaving.

    def released(self, address: Address, activation: int, wake_at: int | None) -> None:
        """A host has closed a thread. If a newer activation has been or is being ordered, nothing changes."""
        location = self._locations.get(address)
        if location is None or location.activation != activation or address in self._moving:
            return
        self._leave(address, location)
        self.fleet.totals.add("hibernations")
        if wake_at is not None:
            self.alarms.set(address, wake_at)

    async def evict(self, address: Address) -> ThreadUpdate | None:
        """Have a thread closed and forgotten: its file is gone. Returns how far it had got, if it was awake."""
        if (under_way := self._moving.get(address)) is not None:
            await asyncio.wait({under_way})
        self.alarms.drop(address)
        self._crashes.forget(address)
        self._warnings.pop(address, None)
        location, latest = self._locations.get(address), None
        if location is not None:
            if (entry := self.fleet.get(location.host)) is not None:
                with suppress(RayError):
                    latest = await entry.handle.evict.remote(address)
            self._leave(address, location)
        return latest

    def _leave(self, address: Address, location: Location) -> None:
        if (current := self._locations.get(address)) is not None and current.host == location.host:
            self._locations.drop(address)
        self.fleet.leave(address, location.host)

    # Waking without a caller: timers, and what a host that died had at work.

    def wake_when(self, address: Address, due: int | None) -> None:
        """Have a thread awake at a time, at once if that is over; None is not by itself."""
        if due is None or address in self._locations.all:
            return
        if address in self._moving:
            # If that activation fails, the alarm wakes the thread; if it succeeds, the alarm is dropped.
            self.alarms.set(address, now_ms() + WAKE_AGAIN_MS)
        elif due <= now_ms():
            self._background.go(self._wake(address))
        else:
            self.alarms.set(address, due)

    async def _wake(self, address: Address) -> None:
        """Wake a thread, as often as it takes."""
        async with self._waking:
            try:
                await self.locate(address)
            except Damaged as error:
                log.warning("%s cannot be woken: %s", address, error)
                self.alarms.set(address, now_ms() + MENDED_MS)
            except HOPELESS as error:
                log.warning("%s cannot be woken: %s", address, error)
            except AgencyError as error:
                log.warning("%s cannot be woken yet: %s", address, error)
                self.alarms.set(address, now_ms() + WAKE_AGAIN_MS)

    async def _host_died(
        self, host: str, lost: list[Address], *, was_ready: bool, blocked_by: BlockedLoop | None
    ) -> None:
        """Wake elsewhere the threads that were at work in a host that died. Their files tell which ones were. If it was
        ended because the code of one of them held up its event loop, that one alone has to do with it."""
        guilty = blocked_by.address if blocked_by is not None else None
        if blocked_by is not None and guilty is not None:
            said = f"the process of this run was ended and the run taken up in another one: {blocked_by.told}"
            self._warnings[guilty] = Warned(blocked_by.run_id, blocked_by.kind, said)
        opening_there = {address for address in lost if self._opening.get(address) == host}
        for address in lost:
            if (location := self._locations.get(address)) is not None and location.host == host:
                self._locations.drop(address)
        glances = await asyncio.to_thread(self.look_at, lost)
        self._record([update_from_file(address, seen) for address, seen in glances if seen.seq])
        for address, seen in glances:
            opening = address in opening_there
            if was_ready and (opening or seen.due == 0) and guilty in (None, address):
                waiting = guilty is None and not (opening or seen.calling)
                self._crashes.count(address, seen.got_to, waiting=waiting, alone=guilty is not None or len(lost) == 1)
            self.wake_when(address, seen.due)

    def look_at(self, addresses: list[Address]) -> list[tuple[Address, Glance]]:
        return [(address, glance(self._files.of(address))) for address in addresses]

    async def _park(self, address: Address) -> None:
        """End the run of a thread that kills its hosts, without running anything of it."""
        message = f"its process died {self._settings.poison_after} times in a row without getting any further"
        if (warning := self._warnings.pop(address, None)) is not None:
            message = f"{message}; the last time, {warning.message}"
        log.error("the run of %s is ended: %s", address, message)
        try:
            system = await self._load_system()
            await park(self._files.of(address), system, Poisoned(message), storage=self._settings.files)
        except AgencyError as error:
            log.warning("the run of %s could not be ended: %r", address, error)
        ((_, seen),) = await asyncio.to_thread(self.look_at, [address])
        self._record([update_from_file(address, seen)])
        self._crashes.forget(address)
