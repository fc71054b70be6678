"""The Directory: which thread is awake in which host. One named, detached Ray actor; the agencies live in its process.

Only its order wakes a thread in a host, so a thread has one location. The directory may die at any time: Ray starts it
again, and it asks the hosts which threads they have. Everything else is in the files: a run that was in progress, mail
that waits, a timer. So a thread goes on by itself, whatever has died.

An activation has a number. A host that lets a thread go says which activation that was; if the directory has ordered a
newer one meanwhile, the message is late and is ignored.
"""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError

from actors import logs
from actors.address import Address, Files
from actors.agency.store import Creation, is_unfinished, peek_due, peek_heads
from actors.answers import NotHere, Refusal, answer, unwrap
from actors.background import Background
from actors.caller import Location
from actors.directory.agencies import Agencies
from actors.directory.alarms import Alarms
from actors.directory.counts import ThreadCounts
from actors.directory.fleet import Fleet
from actors.directory.index_writer import IndexWriter
from actors.directory.poison import CrashCounts
from actors.directory.tickets import Tickets
from actors.host.host import Misplaced
from actors.settings import Settings, load_system
from actors.status import Metrics, Readiness, Status
from actors.totals import UNITS, Totals
from actors.updates import ThreadUpdate, UpdatesTaken
from agency.api.tenancy import AgencyInfo
from agency.children.parcels import Report
from agency.clock import now_ms
from agency.define.system import AgentSystem
from agency.errors import AgencyError, NotFound, Poisoned, Unavailable, WrongState
from agency.local import HOPELESS
from agency.store.peek import Glance, glance
from agency.thread.parking import park

log = logging.getLogger(__name__)

ATTEMPTS = 20
"""How many hosts may die under one activation before whoever asked is told."""

WAKING_AT_ONCE = 16
APART_AT_ONCE = 2
APART_SECONDS = 5.0
SCAN_CHUNK = 200
AGAIN_MS = 2_000
LOCK_SECONDS = 5.0
MAINTENANCE_SECONDS = 5.0
HEAR_SECONDS = 1.0

FRESH = frozenset({"summary", "threads", "counts", "usage", "allowance", "run_schedule", "schedule_runs"})
"""What is answered from the index, when it is up to date."""
LOADING_SECONDS = 1.0
STOPPING = "the installation is being stopped"


class Directory:
    def __init__(self, settings: Settings) -> None:
        logs.set_up(settings.log_level)
        self._settings = settings
        self._files = Files(settings.data_dir)
        self._fleet = Fleet(settings, self._host_died)
        self._began = time.monotonic()
        self._tickets = Tickets()
        self._counts = ThreadCounts(self._files)
        self._crashes = CrashCounts(settings.poison_after)
        self._background = Background("the directory")
        self._alarms = Alarms(lambda address: self._background.go(self._rewake(address)))
        self._bells = Alarms(lambda address: self._background.go(self._run_due(address)))
        self._locations: dict[Address, Location] = {}
        self._moving: dict[Address, asyncio.Task[Location]] = {}
        self._hearing: dict[str, asyncio.Task[None]] = {}
        self._numbers = itertools.count(time.time_ns())
        self._loading: asyncio.Task[AgentSystem] | None = None
        self._agencies = Agencies(settings, self._loaded, self)
        self._index = IndexWriter(self._agencies, self._background)
        self._stopping = False
        self._refused: Refusal | None = None
        self._decided = asyncio.Event()
        self._started = asyncio.Event()
        self._waking = asyncio.Semaphore(WAKING_AT_ONCE)
        self._apart: dict[Address, float] = {}  # kept apart, since when
        self._opening: dict[Address, str] = {}  # being opened, in which host
        ray.get_runtime_context().current_actor.start.remote()  # also when Ray has restarted it, and nobody asks

    # Beginning, again and again.

    async def start(self) -> None:
        """Find the hosts that are there and what they hold, then whatever else has something to do."""
        if self._started.is_set():
            return
        ours = await self._lock_folder()
        self._decided.set()
        if not ours:
            return
        self._locations.update(await self._fleet.adopt())
        self._started.set()
        self._fleet.keep_warm()
        self._background.go(self._scan())
        self._background.go(self._alarms.ring())
        self._background.go(self._bells.ring())
        self._background.go_on(min(MAINTENANCE_SECONDS, self._settings.hibernate_after), self._maintain)

    async def _lock_folder(self) -> bool:
        """Whether the data folder is ours. Another directory on it, of another namespace or cluster, would fight us."""
        self._files.prepare()
        self._lock = (self._settings.data_dir / "directory.lock").open("w")
        deadline = time.monotonic() + LOCK_SECONDS  # one that has just died may not be quite gone
        while time.monotonic() < deadline:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except OSError:
                await asyncio.sleep(0.1)
        message = f"another installation uses {self._settings.data_dir}: stop it first, or use another folder"
        self._refused = Refusal(WrongState.code, message)
        return False

    async def _scan(self) -> None:
        """Wake whatever should be at work; first what was awake when it was interrupted."""
        for agency in await asyncio.to_thread(self._files.agencies):
            if await asyncio.to_thread(is_unfinished, self._files.of(Address(agency))):
                self._background.go(self._finish(agency))
            if (due := await asyncio.to_thread(peek_due, self._files.of(Address(agency)))) is not None:
                self._bells.no_later(Address(agency), due)  # it may be awake, and know better
        found = await asyncio.to_thread(self._files.all_threads)
        for start in range(0, len(found), SCAN_CHUNK):
            chunk = found[start : start + SCAN_CHUNK]
            heads = await asyncio.to_thread(self._heads, chunk)
            seen = await asyncio.to_thread(self._look_at, chunk)
            for address, glanced in seen:
                self._wake_when(address, glanced.due)
            moved = [_news(*each, heads[each[0]]) for each in seen if each[1].seq != heads[each[0]]]
            self._background.go(self._index.write_until_done(moved))

    def _heads(self, addresses: list[Address]) -> dict[Address, int]:
        """Which events of threads their agencies know of. Asked before the files, which are never behind, unless they
        are from an earlier time."""
        threads: dict[str, list[str]] = defaultdict(list)
        for address in addresses:
            threads[address.agency].append(address.thread)
        known = {agency: peek_heads(self._files.of(Address(agency)), ids) for agency, ids in threads.items()}
        return {address: known[address.agency].get(address.thread, 0) for address in addresses}

    async def _finish(self, agency: str) -> None:
        try:
            await (await self._control()).finish(agency)
        except AgencyError as error:
            log.warning("agency %s cannot finish what it began: %s", agency, error)

    def _look_at(self, addresses: list[Address]) -> list[tuple[Address, Glance]]:
        return [(address, glance(self._files.of(address))) for address in addresses]

    async def _maintain(self) -> None:
        await self._fleet.maintain()
        self._agencies.sweep(time.monotonic() - self._settings.hibernate_after)

    # What clients and hosts ask.

    async def describe(self) -> Settings | Refusal:
        await self._decided.wait()
        return self._refused or self._settings

    async def locate(self, address: Address, missed: int = 0) -> Location | Refusal:
        """Where a thread is awake; it is woken if it is not. `missed` is an activation that was not to be found."""
        return await answer(self._locate(address, missed))

    async def released(self, address: Address, n: int, wake_at: int | None, untold: ThreadUpdate | None) -> None:
        """A host has let a thread go, with what it has not told of it yet: the host may be given back for that."""
        await self._started.wait()
        if untold is not None:
            self._background.go(self._index.write_until_done([untold]))
        location = self._locations.get(address)
        if location is not None and location.n == n and address not in self._moving:
            self._vacate(address, location)
            self._fleet.totals.add("hibernations")
            if wake_at is not None:
                self._alarms.set(address, wake_at)

    async def take_updates(self, host: str, news: list[ThreadUpdate], totals: Totals) -> UpdatesTaken:
        """A host tells where its threads stand."""
        await self._started.wait()
        self._fleet.count(host, totals)
        left = await self._index.write(news)
        return UpdatesTaken(self._agencies.watched(), left)

    async def create_agency(self, info: AgencyInfo) -> Refusal | None:
        """Make an agency, if it is not there yet."""

        async def create() -> None:
            (await self._control()).create(info)

        return await answer(create())

    async def call_agency(self, agency: str, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call a method of an agency."""

        async def call() -> Any:
            control = await self._control()
            if method in FRESH or (method == "journal" and not kwargs.get("wait")):
                await self._hear(agency)
            return await control.call(agency, method, args, kwargs)

        return await answer(call())

    async def _hear(self, agency: str) -> None:
        """Have hosts tell what they have not told yet, so that whoever asks finds what has happened before. Those who
        ask meanwhile are served together, by the next time."""
        if (earlier := self._hearing.get(agency)) is not None:
            await asyncio.wait({earlier})
        if (hearing := self._hearing.get(agency)) is None:
            hearing = self._hearing[agency] = asyncio.create_task(self._listen(agency))
            hearing.add_done_callback(lambda _: self._hearing.pop(agency))
        await asyncio.shield(hearing)

    async def _listen(self, agency: str) -> None:
        hosts = {location.host for address, location in self._locations.items() if address.agency == agency}
        told = await asyncio.gather(*(self._untold(host, agency) for host in hosts))
        if news := [each for some in told for each in some]:
            await self._index.write(news)

    async def _untold(self, host: str, agency: str) -> list[ThreadUpdate]:
        entry = self._fleet.get(host)
        try:
            async with asyncio.timeout(HEAR_SECONDS):
                return [] if entry is None else list(await entry.handle.unconfirmed.remote(agency))
        except (RayError, TimeoutError):
            return []  # it will tell when it can, or its files will

    async def issue_ticket(self, digest: str, grant: str, seconds: float) -> None:
        self._tickets.add(digest, grant, seconds)

    async def redeem_ticket(self, digest: str) -> str | None:
        return self._tickets.take(digest)

    async def readiness(self) -> Readiness:
        """Whether a thread could run now; soon, whatever goes on."""
        problem = await self._problem()
        return Readiness(ready=not problem, hosts=self._fleet.ready, reason=problem)

    async def _problem(self) -> str:
        if self._refused is not None:
            return self._refused.message
        if self._stopping:
            return STOPPING
        if not self._started.is_set():
            return "the directory is still looking for what is there"
        try:
            async with asyncio.timeout(LOADING_SECONDS):
                await self._system()
        except TimeoutError:
            return "the system is still being loaded"
        except AgencyError as error:
            return str(error)
        return "" if self._fleet.ready else self._fleet.problem

    async def status(self) -> Status:
        await self._started.wait()
        threads = await asyncio.to_thread(self._files.all_threads)
        return Status(
            nodes=self._fleet.node_statuses(),
            hosts=await self._fleet.host_statuses(),
            agencies=tuple(self._agencies.ids()),
            awake=len(self._locations),
            hibernated=sum(address not in self._locations for address in threads),
            alarms={str(address): due for address, due in self._alarms.all().items()},
        )

    async def metrics(self) -> Metrics:
        await self._started.wait()
        counted = await self._counts.current()
        sums = self._fleet.totals.all()
        cost = sums.pop("cost_units", 0) / UNITS
        return Metrics(
            **sums,
            cost_usd=cost,
            uptime_seconds=time.monotonic() - self._began,
            hosts={"starting": self._fleet.starting, "ready": self._fleet.ready},
            awake=len(self._locations),
            hibernated=max(0, counted.threads - len(self._locations)),
            approvals_waiting=counted.waiting,
            alarms=len(self._alarms.all()),
        )

    async def where(self, addresses: list[Address]) -> dict[Address, str]:
        """The hosts of those that are awake."""
        await self._started.wait()
        return {address: self._locations[address].host for address in addresses if address in self._locations}

    async def stop(self) -> None:
        """Put everything to rest and end the hosts; runs in progress carry on after the next start."""
        self._stopping = True
        await self._fleet.stop()

    # Agencies, and what they ask.

    async def _control(self) -> Agencies:
        await self._started.wait()
        if self._stopping:
            raise Unavailable(STOPPING)
        await self._system()
        return self._agencies

    async def _system(self) -> AgentSystem:
        """Imported when it is first needed, and beside everything else: it is other people's code."""
        if self._loading is None or (self._loading.done() and self._loading.exception() is not None):
            self._loading = asyncio.create_task(asyncio.to_thread(load_system, self._settings))
        return await asyncio.shield(self._loading)

    def _loaded(self) -> AgentSystem:
        assert self._loading is not None
        return self._loading.result()

    async def create(self, creation: Creation) -> None:
        """Make a thread, if it is not there yet, and begin its first run."""
        await self._move(Address(creation.metadata.agency_id, creation.metadata.id), creation)

    async def evict(self, address: Address) -> ThreadUpdate | None:
        """Have a thread closed and forgotten: its file is gone. Where it stood, if it was awake."""
        if (under_way := self._moving.get(address)) is not None:
            await asyncio.wait({under_way})
        self._alarms.drop(address)
        self._crashes.forget(address)
        location, latest = self._locations.get(address), None
        if location is not None:
            if (entry := self._fleet.get(location.host)) is not None:
                with suppress(RayError):
                    latest = await entry.handle.evict.remote(address)
            self._vacate(address, location)
        return latest

    async def announce(self, agency: str) -> None:
        """Tell all hosts that an agency's terms have changed. One that does not answer has died, or will hear of it
        before it does anything else."""
        calls = [entry.handle.terms_changed.remote(agency) for entry in self._fleet.ready_hosts]
        with suppress(TimeoutError):
            async with asyncio.timeout(HEAR_SECONDS):
                await asyncio.gather(*calls, return_exceptions=True)

    def lift_soon(self, agency: str) -> None:
        """Have an agency tell the threads that it has refused that there is more to spend."""
        self._background.go(self._lift(agency))

    async def _lift(self, agency: str) -> None:
        try:
            await (await self._control()).lift(agency)
        except AgencyError as error:
            log.warning("agency %s cannot tell its threads that they may go on: %s", agency, error)

    async def lift(self, address: Address) -> None:
        """Tell a thread that there is more to spend, if it still exists."""
        await self._tell(address, "budget_lifted")

    async def report(self, agency: str, report: Report) -> None:
        """Hand a report to a thread of an agency, if it still exists."""
        await self._tell(Address(agency, report.to), "receive", report)

    def ring_at(self, agency: str, due: int | None) -> None:
        """When an agency's schedules are due next."""
        if due is None:
            self._bells.drop(Address(agency))
        else:
            self._bells.set(Address(agency), due)

    async def _run_due(self, address: Address) -> None:
        """Have an agency start what its schedules want, sooner or later."""
        try:
            await (await self._control()).run_due(address.agency)
        except Exception as error:  # whatever it was, schedules go on
            if self._files.of(address).exists():  # else it was deleted
                log.warning("agency %s cannot run its schedules yet: %r", address, error)
                self._bells.no_later(address, now_ms() + AGAIN_MS)

    async def _tell(self, address: Address, method: str, *args: object) -> None:
        missed = 0
        for _ in range(ATTEMPTS):
            try:
                location = await self._locate(address, missed)
            except NotFound:
                return
            missed = location.n
            entry = self._fleet.get(location.host)
            with suppress(RayError):
                if entry is not None:
                    answered = await entry.handle.call.remote(address, method, args, {})
                    if not isinstance(answered, NotHere):
                        unwrap(answered)
                        return
            await asyncio.sleep(0.1)
        raise Unavailable(f"{address} cannot be reached")

    # Activations.

    async def _locate(self, address: Address, missed: int) -> Location:
        await self._started.wait()
        location = self._locations.get(address)
        if address not in self._moving:
            if location is not None and location.n != missed:
                return location
            if not self._files.of(address).exists():
                raise NotFound(f"there is no thread {address.thread!r} in agency {address.agency!r}")
        return await self._move(address)

    async def _move(self, address: Address, create: Creation | None = None) -> Location:
        """Wake a thread, once however many ask for it."""
        if self._stopping:
            raise Unavailable(STOPPING)
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
            task.exception()  # whoever asked has it, and nobody may have asked

    async def _activate(self, address: Address, create: Creation | None) -> Location:
        dedicated = create is not None and create.blueprint.isolation == "dedicated"
        for _ in range(ATTEMPTS):
            if self._crashes.is_poison(address):
                await self._park(address)
            current = self._locations.get(address)
            alone = dedicated or self._isolate(address)
            entry = await self._fleet.host_for(address, current.host if current is not None else None, alone=alone)
            location = Location(entry.name, next(self._numbers))
            self._opening[address] = entry.name
            try:
                answered = await entry.handle.activate.remote(
                    address, location.n, create, entry.slot.role == "dedicated"
                )
            except RayError:
                await self._fleet.clean_up(entry)
                continue
            finally:
                del self._opening[address]
            if isinstance(answered, Misplaced | Refusal):
                self._vacate(address, location)
            if isinstance(answered, Misplaced):
                dedicated = True
                continue
            unwrap(answered)
            if address not in self._locations:
                self._fleet.totals.add("activations")
            self._locations[address] = location
            self._alarms.drop(address)
            return location
        raise Unavailable(f"{address} cannot be woken: its host died {ATTEMPTS} times")

    def _isolate(self, address: Address) -> bool:
        """Whether a thread that may be poison gets a host to itself now: a few at a time, for they are processes."""
        now = time.monotonic()
        self._apart = {known: since for known, since in self._apart.items() if now - since < APART_SECONDS}
        if not self._crashes.needs_own_host(address) or (
            address not in self._apart and len(self._apart) >= APART_AT_ONCE
        ):
            return False
        self._apart[address] = now
        return True

    def _vacate(self, address: Address, location: Location) -> None:
        if (current := self._locations.get(address)) is not None and current.host == location.host:
            del self._locations[address]
        self._fleet.leave(address, location.host)

    # Without anybody asking.

    def _wake_when(self, address: Address, due: int | None) -> None:
        if due is None or address in self._locations:
            return
        if address in self._moving:
            self._alarms.set(address, now_ms() + AGAIN_MS)  # if that fails; else it is dropped
        elif due <= now_ms():
            self._background.go(self._rewake(address))
        else:
            self._alarms.set(address, due)

    async def _rewake(self, address: Address) -> None:
        """Wake a thread that nobody has asked for, sooner or later."""
        async with self._waking:
            try:
                await self._locate(address, 0)
            except HOPELESS as error:
                log.warning("%s cannot be woken: %s", address, error)
            except AgencyError as error:
                log.warning("%s cannot be woken yet: %s", address, error)
                self._alarms.set(address, now_ms() + AGAIN_MS)

    async def _host_died(self, host: str, lost: list[Address], *, was_ready: bool) -> None:
        """Wake elsewhere what was at work in it."""
        opening_there = {address for address in lost if self._opening.get(address) == host}
        for address in lost:
            if (location := self._locations.get(address)) is not None and location.host == host:
                del self._locations[address]
        looked_at = await asyncio.to_thread(self._look_at, lost)
        self._background.go(
            self._index.write_until_done([_news(address, seen) for address, seen in looked_at if seen.seq])
        )
        for address, seen in looked_at:
            opening = address in opening_there
            if was_ready and (opening or seen.due == 0):
                self._crashes.count(address, seen.seq, waiting=not (opening or seen.calling), alone=len(lost) == 1)
            self._wake_when(address, seen.due)

    async def _park(self, address: Address) -> None:
        """End the run of a thread that kills its hosts."""
        message = f"its process died {self._settings.poison_after} times in a row without getting any further"
        log.error("%s is given up: %s", address, message)
        try:
            system = await self._system()
            await park(self._files.of(address), system, Poisoned(message), storage=self._settings.files)
        except AgencyError as error:
            log.warning("%s could not be parked: %r", address, error)
        ((_, seen),) = await asyncio.to_thread(self._look_at, [address])
        self._background.go(self._index.write_until_done([_news(address, seen)]))
        self._crashes.forget(address)


def _news(address: Address, seen: Glance, head: int = 0) -> ThreadUpdate:
    """What a file tells of its thread, instead of its host; `head` is what was known of it before."""
    lost = head if seen.seq < head else None
    told = (seen.seq, seen.status, seen.reason, seen.at)
    return ThreadUpdate(address, seen.born, *told, lost, spent=seen.spent, children=seen.children)
