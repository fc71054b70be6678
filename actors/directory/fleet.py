"""The hosts of an installation: started ahead, watched, cleaned up after when they die, given back when not needed.

`placement` decides where a thread goes; `activations` decides what happens to the threads of a host that has died.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import time
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Protocol

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.address import Address
from actors.answers import Refusal, reason_of, unwrap
from actors.background import Background
from actors.caller import Handle, Location
from actors.directory.host_entry import HostEntry
from actors.directory.placement import HostSlot, Placement
from actors.directory.pulse import LoopTime
from actors.directory.troubles import Troubles
from actors.host.host import HOST_PREFIX, Host, Inventory
from actors.host.watchdog import BlockedLoop
from actors.settings import Settings
from actors.status import HostStatus, NodeStatus
from actors.totals import InstallationTotals, Totals
from agency.errors import AgencyError, DefinitionError, SystemBroken, Unavailable, revive

log = logging.getLogger(__name__)

INVENTORY_SECONDS = 20.0
WARM_SECONDS = 0.25
PATIENCE = 30.0
"""Seconds for which a thread that has to be awake waits for a host where none starts just now, or none answers."""
LOOK_AGAIN_SECONDS = 0.5
NO_HOST = "the processes that threads run in are starting again; what was asked for was not done, so try again soon"
BROKEN = (
    "the server cannot load its agents, so no thread can run until those who run it have mended that: "
    "`agency status` and `agency doctor` tell them why"
)

_HOST_NAME = re.compile(rf"{HOST_PREFIX}[0-9]+")


class OnDeath(Protocol):
    """Called with a host that has died and the threads that it held, or was to hold once it would be ready;
    `blocked_by` is what held up its event loop, if it was ended for that."""

    def __call__(
        self, host: str, lost: list[Address], *, was_ready: bool, blocked_by: BlockedLoop | None
    ) -> Awaitable[None]: ...


class Fleet:
    def __init__(self, settings: Settings, on_death: OnDeath) -> None:
        self._settings = settings
        self._on_death = on_death
        self._placement = Placement(settings.warm_hosts)
        self._hosts: dict[str, HostEntry] = {}
        self._names = itertools.count(1)
        self._troubles = Troubles(self._placement.closed)
        self._warming: asyncio.TimerHandle | None = None
        self._host_ready = asyncio.Event()  # set and replaced each time that a host becomes ready
        self._stopping = False
        self._background = Background("the fleet")
        self.beat_seconds = settings.silent_after / 10
        self.clock = LoopTime(self.beat_seconds)
        self.totals = InstallationTotals()
        """What the hosts have counted."""
        self._node = ray.get_runtime_context().get_node_id()
        self.orders_from = 0
        """The lowest number of an order that hosts may take."""

    # Beginning and ending.

    async def adopt(self) -> dict[Address, Location]:
        """Take over the hosts that an earlier directory has started. Returns where their threads are."""
        await self._look_for_nodes()
        named = await asyncio.to_thread(ray.util.list_named_actors, all_namespaces=True)
        found = [each["name"] for each in named if each["namespace"] == self._settings.namespace]
        hosts = [name for name in found if _HOST_NAME.fullmatch(name)]
        self._names = itertools.count(max(map(_number, hosts), default=0) + 1)
        self._background.go_on(self.beat_seconds, self._beat)
        adopted = await asyncio.gather(*(self._adopt(name) for name in hosts))
        return {address: location for held in adopted for address, location in held.items()}

    async def _adopt(self, name: str) -> dict[Address, Location]:
        """A host that does not answer is ended, so that it is safe to wake its threads elsewhere."""
        try:
            handle: Handle = await asyncio.to_thread(ray.get_actor, name, namespace=self._settings.namespace)
        except ValueError:
            return {}  # it has just died
        try:
            async with asyncio.timeout(INVENTORY_SECONDS):
                answered: Inventory | Refusal = await handle.inventory.remote(self.orders_from)
            held = unwrap(answered)
        except (RayError, TimeoutError, AgencyError) as error:
            log.warning("%s does not answer and is ended: %r", name, error)
            ray.kill(handle)
            return {}
        slot = HostSlot(name, held.node, held.role, ready=True, threads=set(held.threads), empty_since=time.monotonic())
        entry = self._enlist(handle, slot)
        self._opened(entry, held)
        self.totals.begin(name, held.totals)
        self._background.go(self._watch(entry))
        return {address: Location(name, activation) for address, activation in held.threads.items()}

    async def maintain(self) -> None:
        """Called periodically: see which nodes there are, end the hosts that are not needed, start those that are."""
        await self._look_for_nodes()
        for slot in self._placement.to_stop(time.monotonic() - self._settings.hibernate_after):
            self._give_back(self._hosts[slot.name])
        self.keep_warm()
        self._try_closed_nodes()

    async def stop(self) -> None:
        """Put every thread to rest and end all hosts."""
        self._stopping = True
        await asyncio.gather(*(entry.end(self._node) for entry in list(self._hosts.values())))

    def count(self, host: str, totals: Totals) -> None:
        """What a host has counted so far."""
        if (entry := self._hosts.get(host)) is not None:  # else its counts are in the totals already
            entry.pulse.told()
            self.totals.take(host, totals)

    # Threads come and go.

    def get(self, name: str) -> HostEntry | None:
        return self._hosts.get(name)

    def answers(self, name: str) -> bool:
        """Whether there is such a host, and it answers."""
        return (entry := self._hosts.get(name)) is not None and entry.answers

    @property
    def handles(self) -> list[Handle]:
        """Of all hosts that have started."""
        return [entry.handle for entry in self._hosts.values() if entry.slot.ready]

    def take(self, address: Address) -> str | None:
        """A host that is ready for one more thread, which from now on is in it; None if there is none just now."""
        slot = self._placement.choose(alone=False)
        if slot is None or not slot.ready:
            return None
        self._keep_warm_soon()
        return self._placement.enter(slot, address, alone=False).name

    async def host_for(self, address: Address, current: str | None, *, alone: bool) -> HostEntry:
        """A host that is ready, and in which the thread has its location already: the current one if it still lives."""
        deadline = self.clock.now + PATIENCE
        while True:
            entry = self._hosts.get(current) if current is not None else None
            if entry is None:
                entry = await self._choose(address, deadline, alone=alone)
            try:
                if entry.slot.ready and entry.slot.silent:  # the thread is awake there: it waits for its host's fate
                    await entry.handle.ping.remote()
                await asyncio.wait({entry.opened, entry.pulse.silence}, return_when=asyncio.FIRST_COMPLETED)
                if not entry.opened.done():  # it starts, and is silent for too long
                    self._placement.leave(entry.slot, address, time.monotonic())
                    continue
                entry.opened.result()
            except RayError:
                await self.clean_up(entry)
                continue
            self._keep_warm_soon()
            return entry

    def leave(self, address: Address, host: str) -> None:
        entry = self._hosts.get(host)
        if entry is not None:
            self._placement.leave(entry.slot, address, time.monotonic())
            if entry.slot.role == "dedicated" and not entry.slot.threads:
                self._give_back(entry)

    async def _choose(self, address: Address, deadline: float, *, alone: bool) -> HostEntry:
        """The host for one more thread, which may have to start. After a storm of deaths there is none for a while, or
        none answers: a thread that needs one waits, because hosts are tried again by themselves."""
        while True:
            entry = self._one_for_another(alone=alone)
            if entry is not None:
                self._placement.enter(entry.slot, address, alone=alone)
                return entry
            left = deadline - self.clock.now
            if left <= 0:
                raise self._no_host()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, LOOK_AGAIN_SECONDS)):
                    await self._host_ready.wait()

    def _one_for_another(self, *, alone: bool) -> HostEntry | None:
        """A host that can take one more thread; None if none starts just now, or none answers and enough have been
        started in their place."""
        slot = self._placement.choose(alone=alone)
        if slot is not None:
            return self._hosts[slot.name]
        if not alone and self.silent and self._placement.node_below_budget() is None:
            return None
        return self._start_one_more()

    # Hosts come and go.

    def keep_warm(self) -> None:
        """Start hosts until enough empty ones are ready on each node; one at a time where hosts fail to start."""
        tried: set[str] = set()
        for node in self._placement.to_start() if not self._stopping else ():
            if node not in self._troubles or not (node in tried or self._is_starting(node)):
                self._start(node)
                tried.add(node)

    def _try_closed_nodes(self) -> None:
        """Look whether a host starts by now where none did."""
        for node in self._placement.closed if not self._stopping else ():
            if self._troubles.may_try(node) and not self._is_starting(node):
                self._start(node)

    def _is_starting(self, node: str) -> bool:
        return any(entry.slot.node == node and not entry.slot.ready for entry in self._hosts.values())

    def _keep_warm_soon(self) -> None:
        """Not at once: a process that starts takes a core, and the thread that was just woken needs it more."""
        loop = asyncio.get_running_loop()
        if self._warming is None or self._warming.when() < loop.time():
            self._warming = loop.call_later(WARM_SECONDS, self.keep_warm)

    def _start_one_more(self) -> HostEntry | None:
        """A host on a node where hosts start; None if there is no such node just now. Raises if that stays so until a
        person has changed something."""
        node = self._placement.node_below_budget() or self._placement.least_busy_node()
        if node is not None:
            return self._start(node)
        if self._troubles.all_certain:
            raise self._no_host()
        self._try_closed_nodes()
        return None

    def _no_host(self) -> AgencyError:
        """Why there is none: the reason for those who run the installation, and the rest for everybody."""
        trouble = self._troubles.any or Refusal(Unavailable.code, "there is no node that hosts could be on")
        return revive(trouble.code, trouble.message).telling(trouble.told or NO_HOST)

    def _start(self, node: str) -> HostEntry:
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
        ).remote(name, self._settings)
        entry = self._enlist(handle, HostSlot(name, node, empty_since=time.monotonic()))
        self._background.go(self._open(entry))
        return entry

    def _enlist(self, handle: Handle, slot: HostSlot) -> HostEntry:
        entry = self._hosts[slot.name] = HostEntry(handle, slot, self.clock)
        self._placement.add(slot)
        return entry

    async def _open(self, entry: HostEntry) -> None:
        try:
            answered: Inventory | Refusal = await entry.handle.inventory.remote(self.orders_from)
        except RayError as error:
            reason = f"hosts die while they start: {reason_of(error)}"
            self._troubles.note(entry.slot.node, Refusal(Unavailable.code, reason, NO_HOST))
            entry.fail(error)
            await self.clean_up(entry)
            return
        if isinstance(answered, Refusal):  # it cannot import the system, and no other host on this node will
            code = SystemBroken.code if answered.code == DefinitionError.code else answered.code
            self._troubles.note(entry.slot.node, Refusal(code, answered.message, BROKEN), certain=True)
            self._give_back(entry)
            entry.fail(RayError(answered.message))
            return
        self._troubles.end(entry.slot.node)
        entry.slot.empty_since = time.monotonic()
        self._opened(entry, answered)
        self._background.go(self._watch(entry))

    def _opened(self, entry: HostEntry, inventory: Inventory) -> None:
        entry.slot.ready, entry.pid = True, inventory.pid
        entry.pulse.opened(self._settings.silent_after, self._settings.replace_after)
        entry.opened.set_result(None)
        self._host_ready.set()
        self._host_ready = asyncio.Event()

    async def _watch(self, entry: HostEntry) -> None:
        """An outstanding call fails as soon as the host has died."""
        try:
            await entry.handle.watch.remote()
        except RayError:
            await self.clean_up(entry)

    # Hosts that do not answer.

    async def _beat(self) -> None:
        """See which hosts answer. Of a node, one host at a time is replaced: the others may answer meanwhile."""
        self.clock.tick()
        lost: dict[str, HostEntry] = {}
        for entry in list(self._hosts.values()):
            verdict = entry.pulse.look()
            self._mark(entry)
            if verdict == "lost" and not entry.replaced:
                lost.setdefault(entry.slot.node, entry)
        for entry in lost.values():  # whatever waits for one of them then learns that it has died
            log.error("%s is ended and replaced: %s", entry.name, entry.silence)
            entry.replaced = True
            self.totals.add("hosts_replaced")
            entry.kill(self._node)

    def loop_blocked(self, host: str, by: BlockedLoop) -> None:
        """A host's watchdog says that its event loop is held up."""
        if (entry := self._hosts.get(host)) is not None:
            entry.pulse.blocked(by)
            self._mark(entry)

    def _mark(self, entry: HostEntry) -> None:
        """A host that has fallen silent gets nothing new, and another one takes its place, until it answers again."""
        if entry.slot.silent == entry.pulse.is_silent:
            return
        entry.slot.silent = entry.pulse.is_silent
        if entry.slot.silent:
            log.warning("%s is silent: %s", entry.name, entry.silence)
            self.keep_warm()
        else:
            log.warning("%s answers again", entry.name)

    async def clean_up(self, entry: HostEntry) -> None:
        """A host has died. Done once, however many callers have noticed, and all of them wait until it is done."""
        if entry.cleaned_up is None and self._hosts.get(entry.name) is entry:
            entry.cleaned_up = self._background.go(self._clean_up(entry))
        if entry.cleaned_up is not None:
            await asyncio.shield(entry.cleaned_up)

    async def _clean_up(self, entry: HostEntry) -> None:
        lost = sorted(entry.slot.threads)
        log.warning("%s has died with %d threads", entry.name, len(lost))
        self.totals.add("host_deaths")
        self._remove(entry)
        if not self._stopping:
            await self._look_for_nodes()
            if entry.slot.node not in self._troubles:
                self.keep_warm()
            blocked_by = entry.pulse.blocked_by if entry.replaced else None
            await self._on_death(entry.name, lost, was_ready=entry.slot.ready, blocked_by=blocked_by)

    def _give_back(self, entry: HostEntry) -> None:
        """End a host that holds no thread."""
        if self._hosts.get(entry.name) is entry:
            self._remove(entry)
            self._background.go(entry.end(self._node))

    def _remove(self, entry: HostEntry) -> None:
        del self._hosts[entry.name]
        entry.pulse.stop()
        self.totals.forget(entry.name)
        self._placement.remove(entry.name)

    async def _look_for_nodes(self) -> None:
        nodes = await asyncio.to_thread(ray.nodes)
        here = self._settings.storage == "local"  # the files are on this machine, and nowhere else
        budgets = {}
        for node in nodes:
            if node["Alive"] and (not here or node["NodeID"] == self._node):
                cores = max(1, int(node["Resources"].get("CPU", 1)))
                budgets[node["NodeID"]] = self._settings.actors_per_node or 2 * cores
        self._placement.budgets = budgets
        self._troubles.keep(budgets)

    # Looking at it.

    @property
    def ready(self) -> int:
        """How many hosts could take a thread now."""
        return sum(entry.answers for entry in self._hosts.values())

    @property
    def silent(self) -> int:
        """How many hosts do not answer."""
        return sum(entry.slot.silent for entry in self._hosts.values())

    @property
    def starting(self) -> int:
        return len(self._hosts) - self.ready - self.silent

    @property
    def problem(self) -> Refusal:
        """Why no host may be ready."""
        waits = "no host answers" if self.silent else "no host has started yet"
        return self._troubles.any or Refusal(Unavailable.code, waits)

    @property
    def is_broken(self) -> bool:
        """Whether no host starts on any node."""
        return bool(self._placement.budgets) and self._placement.closed == self._placement.budgets.keys()

    async def host_statuses(self) -> tuple[HostStatus, ...]:
        found = await asyncio.gather(*(entry.status() for entry in list(self._hosts.values())))
        return tuple(sorted(found, key=lambda host: _number(host.name)))

    def node_statuses(self) -> tuple[NodeStatus, ...]:
        on = [entry.slot.node for entry in self._hosts.values()]
        budgets = self._placement.budgets.items()
        told = self._troubles.told
        return tuple(
            NodeStatus(id=node, budget=budget, hosts=on.count(node), problem=told.get(node, ""))
            for node, budget in budgets
        )


def _number(name: str) -> int:
    return int(name.removeprefix(HOST_PREFIX))
