"""The Host: a Ray actor, hence a process, in which threads live while they are awake.

It wakes what the directory orders, passes calls on, puts to sleep what has had nothing to do for a while, and lets
consumers read the events of its threads. It is the `Runtime` of its threads: what they send each other goes through it.
Whatever it holds is in files; killing it costs what a crash costs, and no more.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from pydantic import JsonValue
from ray.exceptions import RayError
from structlog.contextvars import bound_contextvars

from actors import logs
from actors.address import Address, Files
from actors.agency.store import Creation, peek_blueprints
from actors.answers import NotHere, Refusal, answer, unwrap
from actors.background import Background
from actors.caller import Caller, find_directory
from actors.feeds.host_feed import Consumer, FeedBatch
from actors.host import tasks
from actors.host.system_agent import SystemAgent
from actors.host.terms import TermsCache
from actors.host.update_sender import TrackedThread, UpdateSender
from actors.settings import Settings, load_system
from actors.status import Role
from actors.totals import Totals
from actors.updates import ThreadUpdate, UpdatesTaken
from agency.approvals.rules import Policy
from agency.children.parcels import AnyParcel, Cancel, Note, Report, Spawn
from agency.clock import now_ms
from agency.define.blueprint import Blueprint
from agency.define.context import ToolContext
from agency.define.system import AgentSystem
from agency.define.tools import Tool
from agency.errors import AgencyError, InvalidInput, NotFound, Unavailable
from agency.events import timestamp
from agency.local import HOPELESS
from agency.metadata import ThreadMetadata
from agency.models.providers.entry import Provider
from agency.runtime import ThreadProgress
from agency.spending import Spent
from agency.turn.outcomes import CallOutcome

log = logging.getLogger(__name__)

HOST_PREFIX = "Host-"
DOZE_SECONDS = 5.0
ASK_AGAIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Misplaced:
    """The thread must have a host to itself, and this is not one."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a host says about itself to a directory that begins anew."""

    node: str
    role: Role
    threads: dict[Address, int]
    totals: Totals
    """What it has counted so far."""


@dataclass(frozen=True, slots=True)
class HostLoad:
    pid: int
    working: int
    rss_bytes: int


@dataclass(slots=True)
class Awake:
    """A thread in this process."""

    agent: SystemAgent
    n: int
    calls: int = 0
    """Being served right now."""
    used: float = field(default_factory=time.monotonic)

    @property
    def idle(self) -> bool:
        return self.calls == 0 and self.agent.idle


class ActivationLocks:
    """Opening and closing of one thread, one after the other."""

    def __init__(self) -> None:
        self._locks: dict[Address, asyncio.Lock] = {}
        self._wanted: Counter[Address] = Counter()

    @asynccontextmanager
    async def of(self, address: Address) -> AsyncIterator[None]:
        self._wanted[address] += 1
        try:
            async with self._locks.setdefault(address, asyncio.Lock()):
                yield
        finally:
            self._wanted[address] -= 1
            if not self._wanted[address]:
                del self._wanted[address], self._locks[address]


class NeedsOwnHost(Exception):
    """The blueprint wants a host to itself."""


class Host:
    def __init__(self, name: str, settings: Settings) -> None:
        _raise_file_limit()
        self._name = name
        self._role: Role = "shared"
        self._settings = settings
        self._raylet = os.getppid()
        self._files = Files(settings.data_dir)
        self._system: AgentSystem | None = None
        self._broken: Refusal | None = None
        self._caller = HostCaller(self, settings.namespace)
        self._awake: dict[Address, Awake] = {}
        self._activation_locks = ActivationLocks()
        self._consumers: dict[str, Consumer] = {}
        self._background = Background(name)
        self._updates = UpdateSender(self._tell, self._background)
        self._terms = TermsCache(settings)
        self._sweeping = False
        os.environ.update(settings.environment)
        logs.set_up(settings.log_level)
        try:
            self._system = load_system(settings)
            self._system.prepare(settings.providers)
        except AgencyError as error:
            self._broken = Refusal(error.code, f"{error} (on node {ray.get_runtime_context().get_node_id()[:8]})")

    # What the directory asks.

    async def inventory(self) -> Inventory | Refusal:
        if self._broken is not None:
            return self._broken
        if not self._sweeping:
            self._sweeping = True
            await self._rehearse()
            self._background.go_on(min(1.0, self._settings.hibernate_after / 4), self._sweep)
        self._updates.resend_all()
        self._terms.changed()  # the directory before may not have lived to say so
        node = ray.get_runtime_context().get_node_id()
        threads = {address: awake.n for address, awake in self._awake.items()}
        return Inventory(node, self._role, threads, self._updates.counts.totals())

    async def _rehearse(self) -> None:
        """Wake a thread of nobody's once, so that the first real one finds everything loaded and connected."""
        system = AgentSystem("demo:instant").defaults().add_agent(name="nobody", description="-", prompt="-")
        metadata = ThreadMetadata(id="nobody", agent_type="nobody", created_at=timestamp(now_ms()))
        creation = Creation(metadata=metadata, blueprint=system.agents["nobody"])
        updates = UpdateSender(_discard, self._background)
        nobodys = Address("nobody", "nobody")
        runtime = ThreadRuntime(nobodys, self._caller, system, self._settings, updates, self._terms)
        rehearsals = self._settings.data_dir / "ray"  # what a killed one leaves there goes with the local Ray
        rehearsals.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="rehearsal-", dir=rehearsals) as folder:
            path = Path(folder) / "nobody.db"
            nobody = await SystemAgent.open(path, self._settings, system, runtime, self._check, creation)
            await nobody.close()
        await self._caller.remote.directory.describe.remote()

    async def watch(self) -> None:
        """Never returns: that it fails is how the directory learns of this host's death."""
        await asyncio.Event().wait()

    async def activate(
        self, address: Address, n: int, create: Creation | None, alone: bool
    ) -> Misplaced | Refusal | None:
        """Wake an actor, make it first if asked to; one that is awake already goes by the new number from now on."""
        if alone:
            self._role = "dedicated"

        async def activate() -> Misplaced | None:
            try:
                await self._activate(address, n, create)
            except NeedsOwnHost:
                return Misplaced()
            return None

        return await answer(activate())

    async def evict(self, address: Address) -> ThreadUpdate | None:
        """Close a thread; where it stood, if it was here."""
        async with self._activation_locks.of(address):
            awake, latest = self._awake.pop(address, None), None
            if awake is not None:
                await self._close(awake)
                latest = self._updates.latest(address)
                self._updates.end(address)
            return latest

    async def terms_changed(self, agency: str) -> None:
        """An agency has other providers, or another budget."""
        self._terms.changed(agency)

    async def load(self) -> HostLoad:
        working = sum(not awake.idle for awake in self._awake.values())
        return HostLoad(os.getpid(), working, _rss_bytes())

    async def drain(self) -> None:
        """Put everything to rest: the end is near."""
        await asyncio.gather(*(self.evict(address) for address in list(self._awake)))
        if self._system is not None and self._system.observers:
            await asyncio.to_thread(self._system.observers.flush)

    # What everybody asks.

    async def call(
        self, address: Address, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any | NotHere | Refusal:
        """Call a method of an actor that is awake here."""
        awake = self._here(address)
        if awake is None:
            return NotHere()
        if method not in SystemAgent.EXPOSED:
            return Refusal(AgencyError.code, f"a thread has no method {method!r}")
        awake.calls += 1
        try:
            with bound_contextvars(agency=address.agency, thread=address.thread):  # of whatever is logged meanwhile
                answered = await answer(getattr(awake.agent, method)(*args, **kwargs))
            return NotHere() if isinstance(answered, Refusal) and not awake.agent.alive else answered
        finally:
            awake.calls -= 1
            awake.used = time.monotonic()

    async def follow(self, consumer: str, changes: dict[int, tuple[Address, int] | None]) -> None:
        """Follow threads for a consumer, each after a seq, under its own numbers; with None no longer."""
        reading = self._consumers.setdefault(consumer, Consumer())
        for number, wanted in changes.items():
            if wanted is None:
                reading.drop(number)
                continue
            address, after = wanted
            awake = self._here(address)
            reading.follow(number, address, awake.agent if awake is not None else None, after)

    async def forget(self, consumer: str) -> None:
        """A consumer has gone away."""
        if (reading := self._consumers.pop(consumer, None)) is not None:
            reading.close()

    async def unconfirmed(self, agency: str) -> list[ThreadUpdate]:
        """What the directory does not know yet of an agency's threads."""
        return self._updates.unconfirmed(agency)

    async def pull(self, consumer: str) -> FeedBatch | NotHere:
        """The next events for a consumer, of all the threads that it follows here, as soon as there are any."""
        reading = self._consumers.get(consumer)
        return NotHere() if reading is None else await reading.pull()

    # Waking and sleeping.

    def _here(self, address: Address) -> Awake | None:
        awake = self._awake.get(address)
        return awake if awake is not None and awake.agent.alive else None

    async def _activate(self, address: Address, n: int, create: Creation | None) -> None:
        async with self._activation_locks.of(address):
            awake = self._awake.get(address)
            if awake is not None and not awake.agent.alive:
                del self._awake[address]
                await self._close(awake)
                awake = None
            if awake is None:
                self._awake[address] = Awake(await self._open(address, create), n)
            else:
                awake.n, awake.used = n, time.monotonic()
                if create is not None and create.messages:
                    await awake.agent.invoke(
                        create.messages,
                        key=create.key,
                        limits=create.limits,
                        files=create.files,
                        output_schema=create.output_schema,
                    )

    async def _open(self, address: Address, create: Creation | None) -> SystemAgent:
        assert self._system is not None
        runtime = ThreadRuntime(address, self._caller, self._system, self._settings, self._updates, self._terms)
        path = self._files.of(address)
        return await SystemAgent.open(path, self._settings, self._system, runtime, self._check, create)

    def _check(self, blueprint: Blueprint) -> None:
        if blueprint.isolation == "dedicated" and self._role != "dedicated":
            raise NeedsOwnHost

    async def _close(self, awake: Awake) -> None:
        with suppress(AgencyError):
            await awake.agent.close()

    async def _sweep(self) -> None:
        """Let go of what has had nothing to do for a while."""
        if os.getppid() != self._raylet:
            os._exit(1)  # cut off, given up for dead, and back: what was here lives elsewhere now
        now = time.monotonic()
        for name, consumer in list(self._consumers.items()):
            if consumer.is_lost(now):
                await self.forget(name)
        watched = {address for consumer in self._consumers.values() for address in consumer.watched}
        for address, awake in list(self._awake.items()):
            if awake.agent.alive and (not awake.idle or address in watched):
                awake.used = now
            elif not awake.agent.alive or now - awake.used >= self._settings.hibernate_after:
                self._background.go(self._hibernate(address, awake))
        self._terms.keep({address.agency for address in self._awake})
        await self._doze()

    async def _doze(self) -> None:
        """Threads that only wait keep no file open: there may be thousands."""
        for awake in list(self._awake.values()):
            if awake.calls == 0 and awake.agent.alive:
                await awake.agent.doze(DOZE_SECONDS)

    async def _hibernate(self, address: Address, awake: Awake) -> None:
        """Close a thread and tell the directory, with the time at which it has to be awake again."""
        after = self._settings.hibernate_after
        async with self._activation_locks.of(address):
            if self._awake.get(address) is not awake:
                return
            wake_at: int | None = None
            if awake.agent.alive:
                wake_at = awake.agent.wake_at
                soon = wake_at is not None and wake_at < now_ms() + 1000 * after
                if soon or not awake.idle or time.monotonic() - awake.used < after:
                    return
            else:
                wake_at = now_ms() + 1000  # it could not write, or was overtaken: look again in a while
            del self._awake[address]
            await self._close(awake)
            unsent = self._updates.end(address)
        await self._caller.released(address, awake.n, wake_at, unsent)

    async def _tell(self, updates: list[ThreadUpdate], totals: Totals) -> UpdatesTaken:
        call = self._caller.remote.directory.take_updates.options(max_task_retries=0)
        taken: UpdatesTaken = unwrap(await call.remote(self._name, updates, totals))
        return taken


class HostCaller:
    """Calls from inside a host: to an actor in the same host directly, to others like anybody else."""

    def __init__(self, host: Host, namespace: str) -> None:
        self._host = host
        self._namespace = namespace
        self._remote: Caller | None = None

    @property
    def remote(self) -> Caller:
        if self._remote is None:
            self._remote = Caller(find_directory(self._namespace), self._namespace)
        return self._remote

    async def call(self, address: Address, method: str, *args: object) -> Any:
        answered = await self._host.call(address, method, args, {})
        if isinstance(answered, NotHere):
            return await self.remote.call(address, method, *args)
        return unwrap(answered)

    async def released(self, address: Address, n: int, wake_at: int | None, unsent: ThreadUpdate | None) -> None:
        with suppress(RayError):  # the next directory will ask, and look into the files
            await self.remote.directory.released.remote(address, n, wake_at, unsent)


class ThreadRuntime:
    """What a thread needs from where it runs (see `agency.runtime`)."""

    def __init__(
        self,
        address: Address,
        caller: HostCaller,
        system: AgentSystem,
        settings: Settings,
        updates: UpdateSender,
        terms: TermsCache,
    ) -> None:
        self._address = address
        self._agency = address.agency
        self._caller = caller
        self._system = system
        self._settings = settings
        self._updates = updates
        self._terms = terms
        self._tracked: TrackedThread | None = None

    def agents(self) -> Mapping[str, Blueprint]:
        own = peek_blueprints(Files(self._settings.data_dir).of(Address(self._agency)))
        known = {**self._system.agents, **own}
        return {name: blueprint for name, blueprint in known.items() if blueprint.status == "active"}

    def providers(self) -> Mapping[str, Provider]:
        return self._terms.of(self._agency).providers

    def budgeted(self) -> bool:
        return self._terms.of(self._agency).budgeted

    async def allowance(self, thread: ThreadMetadata, spent: Spent) -> str | None:
        while True:
            try:
                return await self._ask_allowance(thread.id, spent)
            except NotFound:
                return None  # the agency is being deleted, and this thread with it
            except Unavailable as error:  # nobody spends what nobody has allowed
                log.warning("%s waits for an allowance: %s", self._address, error)
                await asyncio.sleep(ASK_AGAIN_SECONDS)

    async def _ask_allowance(self, thread_id: str, spent: Spent) -> str | None:
        code: str | None = await self._caller.remote.call_agency(self._agency, "allowance", thread_id, spent)
        return code

    async def offload(self, tool: Tool, args: JsonValue, context: ToolContext) -> CallOutcome:
        return await tasks.offload(self._settings, tool, args, context)

    def policy(self) -> Policy:
        return self._terms.of(self._agency).policy

    async def deliver(self, parcel: AnyParcel) -> None:
        match parcel:
            case Spawn():
                await self._spawn(parcel)
            case Report() | Cancel() | Note():
                await self._tell(parcel)

    def committed(self, thread: ThreadMetadata, progress: ThreadProgress) -> None:
        if self._tracked is None:
            self._tracked = self._updates.track(self._address, thread.created_at)
        self._tracked.advance(progress)

    async def _tell(self, parcel: Report | Cancel | Note) -> None:
        with suppress(NotFound, InvalidInput):  # it has been deleted, or was never made; or that is no thread's name
            await self._caller.call(Address(self._agency, parcel.to), "receive", parcel)

    async def _spawn(self, order: Spawn) -> None:
        try:
            await self._caller.remote.call_agency(self._agency, "spawn", order)
        except HOPELESS as error:
            await self.deliver(order.refused(str(error)))


async def _discard(updates: list[ThreadUpdate], totals: Totals) -> UpdatesTaken:
    return UpdatesTaken(frozenset())


def _raise_file_limit() -> None:
    """An awake thread holds three files open, and the usual limit is low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _rss_bytes() -> int:
    with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123  # the shortest way to it
        return int(statm.read().split()[1]) * resource.getpagesize()
