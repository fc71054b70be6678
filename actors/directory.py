"""The Directory: who lives where. One small named, detached Ray actor.

Only its order wakes an actor in a host, so there is one place where an actor can be. It may die at any time: Ray starts
it again, and it asks the hosts what they hold. What is not awake is found in the files: a run that was in progress, mail
that waits, a timer. So nobody has to ask for a thread to go on, whatever has died.

An activation has a number. A host that lets an actor go says which activation that was; if a newer one has been ordered
meanwhile, the message is too late and means nothing.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import time
from collections.abc import Awaitable, Coroutine
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.address import Address, Files
from actors.agency_store import AgencyInfo, Creation, is_unfinished
from actors.answers import Refusal, answer, unwrap
from actors.caller import Place
from actors.host import HOST_PREFIX, Host, HostLoad, Inventory, Misplaced
from actors.placement import Placement, Role, Room
from actors.settings import Settings
from actors.status import HostStatus, NodeStatus, Status
from actors.strikes import Strikes
from agency.clock import now_ms
from agency.errors import AgencyError, NotFound, Unavailable
from agency.store.store import due_work, last_seq

log = logging.getLogger(__name__)

ATTEMPTS = 20
"""How many hosts may die under one activation before whoever asked is told."""

WAKING_AT_ONCE = 16
APART_AT_ONCE = 2
APART_SECONDS = 5.0
INVENTORY_SECONDS = 20.0
STATUS_SECONDS = 3.0
SCAN_CHUNK = 200


class Entry:
    """A host, from the order to start it until its death."""

    def __init__(self, handle: ActorHandle[Any], room: Room) -> None:
        self.handle = handle
        self.room = room
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.buried: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.room.name


class Directory:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._files = Files(settings.data_dir)
        self._placement = Placement(settings.warm_hosts)
        self._strikes = Strikes(settings.poison_after)
        self._hosts: dict[str, Entry] = {}
        self._places: dict[Address, Place] = {}
        self._moving: dict[Address, asyncio.Task[Place]] = {}
        self._timers: dict[Address, int] = {}
        self._due: list[tuple[int, Address]] = []
        self._names = itertools.count(1)
        self._numbers = itertools.count(time.time_ns())
        self._broken: Refusal | None = None
        self._stopping = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._node = ray.get_runtime_context().get_node_id()
        self._started = asyncio.Event()
        self._rescheduled = asyncio.Event()
        self._waking = asyncio.Semaphore(WAKING_AT_ONCE)
        self._apart = asyncio.Semaphore(APART_AT_ONCE)
        ray.get_runtime_context().current_actor.start.remote()  # also when Ray has restarted it, and nobody asks

    # Beginning, again and again.

    async def start(self) -> None:
        """Find the hosts that are there and what they hold, then whatever else has something to do."""
        if self._started.is_set():
            return
        await self._look_for_nodes()
        await self._adopt_hosts()
        self._started.set()
        self._keep_warm()
        self._go(self._scan())
        self._go(self._fire_timers())
        self._go(self._keep_house())

    async def _adopt_hosts(self) -> None:
        named = await asyncio.to_thread(ray.util.list_named_actors, all_namespaces=True)
        found = [each["name"] for each in named if each["namespace"] == self._settings.namespace]
        hosts = [name for name in found if name.startswith(HOST_PREFIX)]
        numbers = [int(name.removeprefix(HOST_PREFIX)) for name in hosts]
        self._names = itertools.count(max(numbers, default=0) + 1)
        await asyncio.gather(*(self._adopt(name) for name in hosts))

    async def _adopt(self, name: str) -> None:
        """Take over a host that an earlier directory started; one that does not answer is ended, so that it is safe to
        wake elsewhere what it may hold."""
        try:
            handle = await asyncio.to_thread(ray.get_actor, name, namespace=self._settings.namespace)
        except ValueError:
            return  # it has just died
        try:
            async with asyncio.timeout(INVENTORY_SECONDS):
                held: Inventory = unwrap(await handle.inventory.remote())
        except (RayError, TimeoutError, AgencyError) as error:
            log.warning("%s does not answer and is ended: %r", name, error)
            ray.kill(handle)
            return
        room = Room(name, held.node, held.role, ready=True, actors=set(held.actors), empty_since=time.monotonic())
        entry = self._enlist(handle, room)
        entry.opened.set_result(None)
        for address, n in held.actors.items():
            self._places[address] = Place(name, handle, n)
        self._go(self._watch(entry))

    async def _scan(self) -> None:
        """Wake whatever should be at work; first what was awake when it was interrupted."""
        for agency in await asyncio.to_thread(self._files.agencies):
            if await asyncio.to_thread(is_unfinished, self._files.of(Address(agency))):
                self._go(self._rewake(Address(agency)))
        found = await asyncio.to_thread(self._all_threads)
        for start in range(0, len(found), SCAN_CHUNK):
            chunk = [address for address in found[start : start + SCAN_CHUNK] if address not in self._places]
            for address, due in await asyncio.to_thread(self._look_at, chunk):
                self._wake_when(address, due)

    def _all_threads(self) -> list[Address]:
        found = [address for agency in self._files.agencies() for address in self._files.threads(agency)]
        paths = {address: self._files.of(address) for address in found}
        return sorted(found, key=lambda each: not paths[each].with_name(f"{paths[each].name}-wal").exists())

    def _look_at(self, addresses: list[Address]) -> list[tuple[Address, int | None]]:
        return [(address, due_work(self._files.of(address))) for address in addresses]

    def _wake_when(self, address: Address, due: int | None) -> None:
        if due is None or address in self._places or address in self._moving:
            return
        if due <= now_ms():
            self._go(self._rewake(address))
        else:
            self._set_timer(address, due)

    # What clients and hosts ask.

    async def describe(self) -> Settings:
        return self._settings

    async def locate(self, address: Address, missed: int = 0) -> Place | Refusal:
        """Where an actor is awake; it is woken if it is not. `missed` is an activation that was not to be found."""
        return await answer(self._locate(address, missed))

    async def create(self, address: Address, create: Creation | AgencyInfo) -> Place | Refusal:
        """Make an actor, if it is not there yet, and wake it."""
        return await answer(self._move(address, create))

    async def released(self, address: Address, n: int, wake_at: int | None) -> None:
        """A host has let an actor go."""
        await self._started.wait()
        place = self._places.get(address)
        if place is None or place.n != n:
            return
        self._vacate(address, place)
        if wake_at is not None:
            self._set_timer(address, wake_at)

    async def evict(self, address: Address) -> Refusal | None:
        """Have an actor closed and forgotten: its file is gone."""
        return await answer(self._evict(address))

    async def status(self) -> Status:
        await self._started.wait()
        hosts = list(await asyncio.gather(*(self._host_status(entry) for entry in list(self._hosts.values()))))
        hosts.sort(key=lambda host: int(host.name.removeprefix(HOST_PREFIX)))
        counted = await asyncio.to_thread(lambda: len(self._all_threads()))
        budgets = self._placement.budgets
        return Status(
            nodes=tuple(
                NodeStatus(id=node, budget=budget, hosts=sum(host.node == node for host in hosts))
                for node, budget in budgets.items()
            ),
            hosts=tuple(hosts),
            awake=sum(bool(address.thread) for address in self._places),
            hibernated=max(0, counted - sum(bool(address.thread) for address in self._places)),
            timers={str(address): due for address, due in self._timers.items()},
        )

    async def where(self, addresses: list[Address]) -> dict[Address, str]:
        """The hosts of those that are awake."""
        await self._started.wait()
        return {address: self._places[address].host for address in addresses if address in self._places}

    async def stop(self) -> None:
        """Put everything to rest and end the hosts; runs in progress carry on after the next start."""
        self._stopping = True
        entries = list(self._hosts.values())
        await asyncio.gather(*(_patiently(entry.handle.drain.remote()) for entry in entries))
        for entry in entries:
            ray.kill(entry.handle)

    # Activations.

    async def _locate(self, address: Address, missed: int) -> Place:
        await self._started.wait()
        place = self._places.get(address)
        if place is not None and place.n != missed and address not in self._moving:
            return place
        if not self._files.of(address).exists() and address not in self._moving:
            thread = f"thread {address.thread!r} in " if address.thread else ""
            raise NotFound(f"there is no {thread}agency {address.agency!r}")
        return await self._move(address)

    async def _move(self, address: Address, create: Creation | AgencyInfo | None = None) -> Place:
        """Wake an actor, once however many ask for it."""
        await self._started.wait()
        if self._stopping:
            raise Unavailable("the installation is being stopped")
        under_way = self._moving.get(address)
        if under_way is not None and create is None:
            return await asyncio.shield(under_way)
        if under_way is not None:
            await asyncio.wait({under_way})
        task = asyncio.create_task(self._activate(address, create), name=f"wake {address}")
        self._moving[address] = task
        task.add_done_callback(lambda done: self._moved(address, done))
        return await asyncio.shield(task)

    def _moved(self, address: Address, task: asyncio.Task[Place]) -> None:
        if self._moving.get(address) is task:
            del self._moving[address]
        if not task.cancelled():
            task.exception()  # whoever asked has it; nobody may have

    async def _activate(self, address: Address, create: Creation | AgencyInfo | None) -> Place:
        dedicated = isinstance(create, Creation) and create.blueprint.isolation == "dedicated"
        for _ in range(ATTEMPTS):
            if self._strikes.out(address):
                await self._park(address)
            entry = await self._room_for(address, alone=dedicated or self._strikes.keep_apart(address))
            n = next(self._numbers)
            try:
                answered = await entry.handle.activate.remote(address, n, create, entry.room.role == "dedicated")
            except RayError:
                await self._bury(entry)
                continue
            place = Place(entry.name, entry.handle, n)
            if isinstance(answered, Misplaced | Refusal):
                self._vacate(address, place)
            if isinstance(answered, Misplaced):
                dedicated = True
                continue
            unwrap(answered)
            self._places[address] = place
            self._timers.pop(address, None)
            return place
        raise Unavailable(f"{address} cannot be woken: its host died {ATTEMPTS} times")

    async def _room_for(self, address: Address, *, alone: bool) -> Entry:
        """A host that is ready, and in which the actor has its place already."""
        while True:
            known = self._places.get(address)
            entry = self._hosts.get(known.host) if known is not None else None
            if entry is None:
                entry = self._choose(address, alone=alone)
            try:
                await asyncio.shield(entry.opened)
            except RayError:
                await self._bury(entry)
                continue
            self._keep_warm()
            return entry

    def _choose(self, address: Address, *, alone: bool) -> Entry:
        if self._broken is not None:
            unwrap(self._broken)
        room = self._placement.choose(address, alone=alone)
        entry = self._hosts[room.name] if room is not None else self._start_host_for(address)
        self._placement.enter(entry.room, address, alone=alone)
        return entry

    def _start_host_for(self, address: Address) -> Entry:
        node = self._placement.node_with_room() if address.thread else None
        node = node or self._placement.quietest_node()
        if node is None:
            raise Unavailable("there is no node that hosts could be on")
        return self._start_host(node, "threads" if address.thread else "agencies")

    def _vacate(self, address: Address, place: Place) -> None:
        if (current := self._places.get(address)) is not None and current.host == place.host:
            del self._places[address]
        entry = self._hosts.get(place.host)
        if entry is None:
            return
        self._placement.leave(entry.room, address, time.monotonic())
        if entry.room.role == "dedicated" and not entry.room.actors:
            self._give_back(entry)

    async def _evict(self, address: Address) -> None:
        await self._started.wait()
        if (under_way := self._moving.get(address)) is not None:
            await asyncio.wait({under_way})
        self._timers.pop(address, None)
        self._strikes.forgive(address)
        place = self._places.get(address)
        if place is not None:
            try:
                await place.handle.evict.remote(address)
            except RayError:
                pass
            self._vacate(address, place)

    async def _rewake(self, address: Address) -> None:
        """Wake an actor that nobody has asked for. One that may be poison is watched for a while, a few at a time."""
        apart = self._strikes.keep_apart(address)
        async with self._apart if apart else self._waking:
            try:
                place = await self._move(address)
            except AgencyError as error:
                log.warning("%s cannot be woken: %s", address, error)
                return
            entry = self._hosts.get(place.host)
            if apart and entry is not None and entry.buried is None:
                await asyncio.wait({self._go(self._until_buried(entry))}, timeout=APART_SECONDS)

    async def _until_buried(self, entry: Entry) -> None:
        while entry.buried is None and entry.name in self._hosts:
            await asyncio.sleep(0.05)

    async def _park(self, address: Address) -> None:
        """End the run of a thread that kills its hosts, and let it be."""
        message = f"its process died {self._settings.poison_after} times in a row without getting any further"
        log.error("%s is given up: %s", address, message)
        room = self._placement.choose(Address(address.agency), alone=False)  # that host runs no agent's code
        entry = self._hosts[room.name] if room is not None else self._start_host_for(Address(address.agency))
        try:
            await asyncio.shield(entry.opened)
            unwrap(await entry.handle.park.remote(address, message))
        except (RayError, AgencyError) as error:
            log.warning("%s could not be parked: %r", address, error)
        self._strikes.forgive(address)

    # Hosts.

    def _enlist(self, handle: ActorHandle[Any], room: Room) -> Entry:
        entry = self._hosts[room.name] = Entry(handle, room)
        self._placement.add(room)
        return entry

    def _start_host(self, node: str, role: Role) -> Entry:
        name = f"{HOST_PREFIX}{next(self._names)}"
        remote: Any = ray.remote(Host)
        handle = remote.options(
            name=name,
            namespace=self._settings.namespace,
            lifetime="detached",
            num_cpus=0,
            max_restarts=0,
            max_concurrency=100_000,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote(name, role, self._settings)
        entry = self._enlist(handle, Room(name, node, role, empty_since=time.monotonic()))
        self._go(self._open_host(entry))
        return entry

    async def _open_host(self, entry: Entry) -> None:
        try:
            answered = await entry.handle.inventory.remote()
        except RayError as error:
            entry.opened.set_exception(error)
            entry.opened.exception()
            await self._bury(entry)
            return
        if isinstance(answered, Refusal):  # it cannot import the system: no other host will either
            self._broken = answered
            self._give_back(entry)
            entry.opened.set_exception(RayError(answered.message))
            entry.opened.exception()
            return
        self._broken = None
        entry.room.ready = True
        entry.room.empty_since = time.monotonic()
        entry.opened.set_result(None)
        self._go(self._watch(entry))

    async def _watch(self, entry: Entry) -> None:
        """An outstanding call fails as soon as the host has died."""
        try:
            await entry.handle.watch.remote()
        except RayError:
            await self._bury(entry)

    async def _bury(self, entry: Entry) -> None:
        """A host has died: wake elsewhere what was at work in it. Done once, however many have noticed."""
        if entry.buried is None and self._hosts.get(entry.name) is entry:
            entry.buried = self._go(self._bury_now(entry))
        if entry.buried is not None:
            await asyncio.shield(entry.buried)

    async def _bury_now(self, entry: Entry) -> None:
        log.warning("%s has died with %d actors", entry.name, len(entry.room.actors))
        del self._hosts[entry.name]
        self._placement.remove(entry.name)
        lost = [address for address in entry.room.actors if address.thread]
        for address in entry.room.actors:
            if (place := self._places.get(address)) is not None and place.host == entry.name:
                del self._places[address]
        if self._stopping:
            return
        await self._look_for_nodes()
        self._keep_warm()
        for address, due, seq in await asyncio.to_thread(self._inspect, lost):
            if due == 0 or address in self._moving:
                self._strikes.count(address, seq)
            self._wake_when(address, due)

    def _inspect(self, addresses: list[Address]) -> list[tuple[Address, int | None, int]]:
        paths = [(address, self._files.of(address)) for address in addresses]
        return [(address, due_work(path), last_seq(path)) for address, path in paths]

    def _give_back(self, entry: Entry) -> None:
        """End a host that holds nobody."""
        if self._hosts.pop(entry.name, None) is not None:
            self._placement.remove(entry.name)
            ray.kill(entry.handle)

    def _keep_warm(self) -> None:
        if self._broken is not None or self._stopping:
            return
        for node in self._placement.to_start():
            self._start_host(node, "threads")
        quietest = self._placement.quietest_node()
        if quietest is not None and not any(entry.room.role == "agencies" for entry in self._hosts.values()):
            self._start_host(quietest, "agencies")

    async def _keep_house(self) -> None:
        """Give back what is not needed, now and then."""
        while not self._stopping:
            await asyncio.sleep(min(5.0, self._settings.hibernate_after))
            await self._look_for_nodes()
            for room in self._placement.to_stop(time.monotonic() - self._settings.hibernate_after):
                self._give_back(self._hosts[room.name])
            self._keep_warm()

    async def _look_for_nodes(self) -> None:
        nodes = await asyncio.to_thread(ray.nodes)
        here = self._settings.storage == "local"  # the files are on this machine, and nowhere else
        budgets = {}
        for node in nodes:
            if node["Alive"] and (not here or node["NodeID"] == self._node):
                cores = max(1, int(node["Resources"].get("CPU", 1)))
                budgets[node["NodeID"]] = self._settings.actors_per_node or 4 * cores
        self._placement.budgets = budgets

    async def _host_status(self, entry: Entry) -> HostStatus:
        try:
            async with asyncio.timeout(STATUS_SECONDS):
                load: HostLoad | None = await entry.handle.load.remote() if entry.room.ready else None
        except (RayError, TimeoutError):
            load = None
        room = entry.room
        return HostStatus(
            name=entry.name,
            node=room.node,
            role=room.role,
            state="starting" if not room.ready else "busy" if load is None else "ready",
            threads=tuple(sorted(str(address) for address in room.actors if address.thread)),
            agencies=tuple(sorted(str(address) for address in room.actors if not address.thread)),
            pid=load.pid if load is not None else None,
            working=load.working if load is not None else 0,
            rss_bytes=load.rss_bytes if load is not None else None,
        )

    # Timers of those that sleep.

    def _set_timer(self, address: Address, due: int) -> None:
        self._timers[address] = due
        heapq.heappush(self._due, (due, address))
        self._rescheduled.set()

    async def _fire_timers(self) -> None:
        while not self._stopping:
            self._rescheduled.clear()
            while self._due and self._due[0][0] <= now_ms():
                due, address = heapq.heappop(self._due)
                if self._timers.get(address) == due:
                    del self._timers[address]
                    self._go(self._rewake(address))
            wait = (self._due[0][0] - now_ms()) / 1000 if self._due else None
            try:
                await asyncio.wait_for(self._rescheduled.wait(), wait)
            except TimeoutError:
                pass

    def _go(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the directory stumbled: %r", error, exc_info=error)


async def _patiently(work: Awaitable[object]) -> None:
    try:
        async with asyncio.timeout(INVENTORY_SECONDS):
            await work
    except (RayError, TimeoutError):
        pass
