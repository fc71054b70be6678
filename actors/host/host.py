"""The Host: a Ray actor, hence a process, in which threads live while they are awake.

It opens the threads that the directory orders, passes calls on to them, closes those that have had nothing to do for a
while, and lets consumers read their events. Everything that it holds is in files: killing it costs what a crash costs.

A host must never open a thread without the directory's order: the directory is what keeps a thread from being awake in
two hosts. An order has a number, the activation. Should the directory order a thread that is awake here already, the
thread takes the new number, and messages about the old one no longer count.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import psutil
import ray
from ray.exceptions import RayError
from structlog.contextvars import bound_contextvars

from actors import build, logs, process_title
from actors.address import Address, Files
from actors.agency.creation import Creation
from actors.agency_hosts import names_of
from actors.answers import NotHere, Refusal, answer, unwrap
from actors.background import Background
from actors.feeds.host_feed import Consumer, FeedBatch
from actors.file_limit import raise_file_limit
from actors.host.activation_locks import ActivationLocks
from actors.host.agents import AgentsCache
from actors.host.host_caller import HostCaller
from actors.host.system_agent import SystemAgent
from actors.host.tasks import handed_over
from actors.host.terms import TermsCache
from actors.host.thread_runtime import HostServices, ThreadRuntime
from actors.host.update_sender import UpdateSenders
from actors.host.warm_up import warm_up
from actors.host.watchdog import BlockedLoop, Watchdog
from actors.log_sender import LogSender
from actors.raylet import has_ended, raylet
from actors.sealing import unseal
from actors.settings import Settings, load_system
from actors.status import Role
from actors.totals import Totals
from actors.updates import ThreadUpdate, UpdatesTaken
from agency import captured
from agency.api.bodies import ServerLogLine
from agency.clock import now_ms
from agency.define.blueprint import Blueprint
from agency.errors import AgencyError, Damaged, NotAThreadStore, StorageFull
from agency.secrets import remember_all, remember_environment
from agency.thread.openings import openings_of

log = logging.getLogger(__name__)

HOST_PREFIX = "Host-"
DOZE_SECONDS = 5.0
COUNT_SECONDS = 0.5
MOST_WORKERS = 1_000
"""OS threads for code that calls `asyncio.to_thread`. They are started as they are needed; with asyncio's few, some
calls that hang would keep the host itself from reading files."""
OF_STORAGE = frozenset({StorageFull.code, Damaged.code, NotAThreadStore.code})
"""The codes of refusals that every activation of a thread would give."""
DEAD_THREAD_MS = 1_000
"""How long after a thread could not go on here (its file could not be written, or another host has it) the directory
looks again."""


@dataclass(frozen=True, slots=True)
class Misplaced:
    """The thread cannot be here: it must have a host to itself, and this is not one, or the order is out of date."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a host says about itself to a directory that begins anew."""

    node: str
    role: Role
    threads: dict[Address, int]
    """Those that are awake here, each with its activation."""
    totals: Totals
    """What it has counted so far."""
    pid: int


@dataclass(frozen=True, slots=True)
class HostLoad:
    pid: int
    working: int
    rss_bytes: int


class Warned(NamedTuple):
    """A warning for a thread's run."""

    run_id: str
    kind: str
    message: str


class NeedsOwnHost(Exception):
    """The blueprint wants a host to itself, and this host is shared."""


class Host:
    def __init__(self, name: str, settings: Settings) -> None:
        process_title.take_over()
        raise_file_limit()  # an awake thread holds three files open
        self._name = name
        self._role: Role = "shared"
        self._settings = settings
        self._raylet = raylet()
        self._files = Files(settings.data_dir)
        self._broken: Refusal | None = None
        self._services: HostServices | None = None
        self._caller = HostCaller(self.call, settings.namespace)
        self._awake: dict[Address, SystemAgent] = {}
        self._locks = ActivationLocks()
        self._consumers: dict[str, Consumer] = {}
        self._background = Background(name)
        self._updates = UpdateSenders(self._send_updates, names_of(settings.agency_hosts), self._background)
        self._counted: Totals = {}
        self._orders_from = 0
        self._terms = TermsCache(settings)
        self._warm = False
        logs.set_up(settings.log_level)
        captured.capture(lines=True)
        self._watchdog = Watchdog(settings.blocked_after, self._is_in_use, self._report_blocked)
        self._log_sender = LogSender(name, self._send_log)
        logging.getLogger().addHandler(self._log_sender)
        try:
            os.environ.update(unseal(settings.data_dir, settings.environment))
            system = load_system(settings)
            remember_environment()
            remember_all(build.references(system, settings.providers))
            system.prepare(settings.providers)
            agents = AgentsCache(settings.data_dir, system)
            self._services = HostServices(name, settings, system, self._caller, self._updates, self._terms, agents)
            openings_of(system).hold()
        except AgencyError as error:
            where = f"on node {ray.get_runtime_context().get_node_id()[:8]}"
            self._broken = Refusal(error.code, f"{error} ({where})", error.told)

    # What the directory asks.

    async def inventory(self, orders_from: int) -> Inventory | Refusal:
        """Which threads are awake here. Every directory asks this when it begins, and when it has started a host.
        Orders with lower numbers are void from now on: the directory that gave them has died, and no other knows of
        them."""
        self._orders_from = orders_from
        if self._services is None:
            assert self._broken is not None
            return self._broken
        if not self._warm:
            self._warm = True
            process_title.show(self._name, "system agents")
            self._log_sender.begin()
            self._watchdog.begin()
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(MOST_WORKERS, "worker"))
            await warm_up(self._services, self._background)
            self._background.go_on(min(1.0, self._settings.hibernate_after / 4), self._sweep)
            self._background.go_on(COUNT_SECONDS, self._send_counts)
        self._terms.changed()  # the directory before this one may have died before it could tell us
        node = ray.get_runtime_context().get_node_id()
        threads = {address: agent.activation for address, agent in self._awake.items()}
        return Inventory(node, self._role, threads, self._updates.counts.totals(), os.getpid())

    async def ping(self) -> None:
        """The answer says that the event loop turns."""

    async def watch(self) -> None:
        """Never returns: the directory learns of this host's death by the failure of this call."""
        await asyncio.Event().wait()

    async def activate(
        self, address: Address, activation: int, create: Creation | None, alone: bool, warning: Warned | None
    ) -> Misplaced | Refusal | None:
        """Wake a thread, or make it first. One that is awake already takes the new activation's number. `warning` is
        what its run's owner should know of the process that it was in before."""
        if activation < self._orders_from:
            return Misplaced()
        if alone:
            self._role = "dedicated"
            process_title.show(self._name, str(address))

        async def activate() -> Misplaced | None:
            try:
                await self._activate(address, activation, create, warning)
            except NeedsOwnHost:
                return Misplaced()
            return None

        return await answer(activate())

    async def evict(self, address: Address) -> ThreadUpdate | None:
        """Close a thread. Returns how far it had got, if it was here."""
        async with self._locks.of(address):
            agent, latest = self._awake.pop(address, None), None
            if agent is not None:
                await _close(agent)
                latest = self._updates.latest(address)
                self._updates.end(address)
            return latest

    async def terms_changed(self, agency: str | None) -> None:
        """An agency has other providers, another budget or another policy; None is any of them may have."""
        await self._terms.read_again(agency)

    async def unconfirmed(self, agency: str) -> list[ThreadUpdate]:
        """The updates of an agency's threads that the directory has not confirmed yet."""
        return self._updates.unconfirmed(agency)

    async def load(self) -> HostLoad:
        working = sum(not agent.idle for agent in self._awake.values())
        return HostLoad(os.getpid(), working, psutil.Process().memory_info().rss)

    async def drain(self) -> None:
        """Close all threads, and what they shared: the installation is being stopped, or this host is not needed."""
        await asyncio.gather(*(self.evict(address) for address in list(self._awake)))
        if self._services is None:
            return
        await self._send_counts()
        await openings_of(self._services.system).release()
        if self._services.system.observers:
            await asyncio.to_thread(self._services.system.observers.flush)

    # What the tasks of this host's threads ask.

    async def secrets_of(self, tool: str) -> dict[str, str]:
        """The values of the variables that a tool declares, by reference. They are never part of a task's arguments:
        those are kept by Ray, and an answer is not."""
        assert self._services is not None
        return handed_over(self._services.system.tool(tool))

    # What clients and other hosts ask.

    async def call(
        self, address: Address, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any | NotHere | Refusal:
        """Call an operation of a thread that is awake here."""
        agent = self._find(address)
        if agent is None:
            return NotHere()
        with bound_contextvars(agency=address.agency, thread=address.thread):  # for log lines written meanwhile
            answered = await answer(agent.call(method, args, kwargs))
        # A refusal by an activation that has ended meanwhile says nothing about the thread: the caller looks for it
        # again, and the next activation decides. That there is no room, or that the file is damaged, is so for each.
        if isinstance(answered, Refusal) and not agent.alive and answered.code not in OF_STORAGE:
            return NotHere()
        return answered

    async def follow(self, consumer: str, changes: dict[int, tuple[Address, int] | None]) -> None:
        """Follow threads for a consumer, each after a seq, under the consumer's numbers; None ends that."""
        reading = self._consumers.setdefault(consumer, Consumer())
        for number, wanted in changes.items():
            if wanted is None:
                reading.drop(number)
                continue
            address, after = wanted
            agent = self._find(address)
            reading.follow(number, address, None if agent is None else agent.thread, after)

    async def forget(self, consumer: str) -> None:
        """A consumer has gone away."""
        if (reading := self._consumers.pop(consumer, None)) is not None:
            reading.close()

    async def pull(self, consumer: str) -> FeedBatch | NotHere:
        """The next events for a consumer, of all the threads that it follows here, as soon as there are any."""
        reading = self._consumers.get(consumer)
        return NotHere() if reading is None else await reading.pull()

    # Waking and closing.

    def _find(self, address: Address) -> SystemAgent | None:
        agent = self._awake.get(address)
        return agent if agent is not None and agent.alive else None

    async def _activate(
        self, address: Address, activation: int, create: Creation | None, warning: Warned | None
    ) -> None:
        async with self._locks.of(address):
            agent = self._awake.get(address)
            if agent is not None and not agent.alive:
                del self._awake[address]
                await _close(agent)
                agent = None
            if agent is None:
                with bound_contextvars(agency=address.agency, thread=address.thread):  # for what its run logs
                    self._awake[address] = await self._open(address, activation, create, warning)
                return
            agent.activation = activation
            agent.touch()
            if create is not None and create.messages:  # the order was repeated: the key makes it count once
                await agent.begin(create)

    async def _open(
        self, address: Address, activation: int, create: Creation | None, warning: Warned | None
    ) -> SystemAgent:
        assert self._services is not None
        runtime = ThreadRuntime(address, self._services)
        await runtime.read_ahead()
        self._terms.of(address.agency)  # refuses: what goes for its runs must be known before anything of them begins
        path, system = self._files.of(address), self._services.system
        agent = await SystemAgent.open(
            path, self._settings, system, runtime, self._check_isolation, create, activation=activation
        )
        if warning is not None:  # before anything of its run goes on, which may hold up this process as well
            agent.thread.warn(*warning)
        return agent

    def _check_isolation(self, blueprint: Blueprint) -> None:
        if blueprint.isolation == "dedicated" and self._role != "dedicated":
            raise NeedsOwnHost

    async def _sweep(self) -> None:
        """Let go of what has had nothing to do for a while."""
        if has_ended(self._raylet):
            # This node was cut off and given up for dead, and its raylet has ended: the directory has woken our threads
            # elsewhere. The epochs in their files keep us from writing; ending is the quickest way to stop trying.
            os._exit(1)
        now = time.monotonic()
        for name, consumer in list(self._consumers.items()):
            if consumer.is_lost(now):
                await self.forget(name)
        watched = {address for consumer in self._consumers.values() for address in consumer.watched}
        for address, agent in list(self._awake.items()):
            if agent.alive and (not agent.idle or address in watched):
                agent.last_used = now
            elif not agent.alive or now - agent.last_used >= self._settings.hibernate_after:
                self._background.go(self._hibernate(address, agent))
        agencies = {address.agency for address in self._awake.keys() | self._locks.moving}
        self._terms.keep(agencies)
        if self._services is not None:
            self._services.agents.keep(agencies)
        for agent in list(self._awake.values()):
            await agent.doze(DOZE_SECONDS)  # a thread that only waits keeps no file open: there may be thousands

    async def _hibernate(self, address: Address, agent: SystemAgent) -> None:
        """Close a thread and tell the directory, with the time at which it has to be awake again."""
        after = self._settings.hibernate_after
        async with self._locks.of(address):
            # Since the sweep, the thread may have been closed, opened anew or used: look again, now under the lock.
            if self._awake.get(address) is not agent:
                return
            wake_at: int | None
            if agent.alive:
                wake_at = agent.thread.wake_at
                soon = wake_at is not None and wake_at < now_ms() + 1000 * after
                if soon or not agent.idle or time.monotonic() - agent.last_used < after:
                    return
            else:
                wake_at = None if agent.thread.damaged else now_ms() + DEAD_THREAD_MS
            del self._awake[address]
            await _close(agent)
            unconfirmed = self._updates.end(address)
        await self._caller.released(address, agent.activation, wake_at, unconfirmed)

    async def _send_updates(self, to: str, updates: list[ThreadUpdate]) -> UpdatesTaken:
        agency_host = await self._caller.remote.host_named(to)
        call = agency_host.take_updates.options(max_task_retries=0)
        taken: UpdatesTaken = unwrap(await call.remote(updates))
        return taken

    async def _send_counts(self) -> None:
        """Tell the directory what has been counted, if that is more than before."""
        counted = self._updates.counts.totals()
        if counted != self._counted:
            with suppress(RayError):
                count = self._caller.remote.directory.count.options(max_task_retries=0)
                await count.remote(self._name, counted)
                self._counted = counted

    def _is_in_use(self) -> bool:
        return bool(self._awake or self._locks.moving)

    def _report_blocked(self, by: BlockedLoop) -> None:
        """Called in the watchdog's OS thread, because the event loop does not turn."""
        try:
            self._caller.remote.directory.loop_blocked.options(max_task_retries=0).remote(self._name, by)
        except Exception:  # the directory is being started again, and will hear of it in a while
            log.info("the directory cannot be told what holds up the event loop", exc_info=True)

    async def _send_log(self, lines: list[ServerLogLine]) -> None:
        await self._caller.remote.directory.take_log.options(max_task_retries=0).remote(lines)


async def _close(agent: SystemAgent) -> None:
    with suppress(AgencyError):
        await agent.thread.close()
