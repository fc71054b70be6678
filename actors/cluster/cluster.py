"""The way in: join a cluster (or start one), and talk to agencies and threads by name from anywhere.

    cluster = await Cluster.join(system="shop.agents:system", data_dir="data")
    agency = await cluster.create_agency("bakery")
    thread = await agency.create_thread("support", "Where is order 7?")
    async for event in thread.events():
        …

Everything made here lives on after this process; `down` ends it all, and the next `join` continues it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import ActorDiedError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors import build, shipping
from actors.address import Address
from actors.agency.context import checked_name
from actors.agency.keys import digest
from actors.agency.peek import peek_info
from actors.answers import Refusal, reason_of, unwrap
from actors.caller import NO_ANSWER, Caller, Handle, find_directory
from actors.cluster import local_ray, preflight
from actors.cluster.agency_handle import AgencyHandle
from actors.cluster.connection import Connection, check_within
from actors.cluster.noted import remove_note, write_note
from actors.cluster.ray_in_use import ray_in_use, tell
from actors.cluster.thread_handle import ThreadHandle
from actors.directory.directory import Directory
from actors.directory.tickets import Holder
from actors.feeds.agency_watcher import AgencySubscription
from actors.feeds.host_feed import NumberedEvent
from actors.feeds.watcher import Subscription
from actors.sealing import seal
from actors.settings import Settings, load_system, settings
from actors.status import Metrics, RayInUse, Readiness, Status
from agency.api.bodies import ServerLog
from agency.api.tenancy import AgencyInfo
from agency.backoff import Backoff
from agency.clock import now_ms
from agency.errors import CANNOT_START, AgencyError, InvalidInput, NotFound, Unavailable, WrongState
from agency.events import timestamp

log = logging.getLogger(__name__)

REPLACED = Backoff(0.05, 0.5)
REPLACED_SECONDS = 10.0
"""How long a directory that was stopped may take until Ray has forgotten its name."""

SILENT_SECONDS = 5.0
"""After which it is looked why a directory does not answer."""

DIRECTORY_SECONDS = 120.0
READY_SECONDS = 2.5
LOG_SECONDS = 300.0
RAY_SECONDS = 30.0
"""How old what is told about Ray may be: looking at all processes costs a tenth of a second."""

TICKET_SECONDS = 3_600.0
GRANT_CHARS = 10_000


class Cluster:
    def __init__(self, configured: Settings, directory: Handle, why_this_ray: str = "") -> None:
        self.settings = configured
        self._why_this_ray = why_this_ray
        self._ray: RayInUse | None = None
        self._looked_at_ray = -RAY_SECONDS
        self._connection = Connection(configured, directory)
        self._places: dict[str, str] = {}

    @classmethod
    async def join(
        cls, configured: Settings | None = None, /, *, start: bool = True, renew: bool = False, **given: object
    ) -> Cluster:
        """Join the installation that these settings describe; it is started if it does not run.

        Without `start`, whatever system runs there is joined. With `renew`, hosts that run other code than what is
        here, or have other providers or keys for the models, are ended and new ones started; runs go on as after a
        crash.
        """
        wanted = configured or settings(**given)
        keys: dict[str, str] = {}
        if start:
            system = load_system(wanted)  # raises before anything starts, if there is something wrong with it
            keys = build.environment(build.references(system, wanted.providers))
            told = (wanted.system, wanted.python_path, wanted.providers, keys, wanted.outgoing)
            built = await asyncio.to_thread(build.fingerprint, *told)
            sealed = await asyncio.to_thread(seal, wanted.data_dir, keys)
            wanted = wanted.model_copy(update={"build": built, "environment": sealed})
        why = await asyncio.to_thread(local_ray.join, wanted, start=start, withheld=keys.keys())
        if start:
            wanted = shipping.for_hosts(wanted)
        directory, running = await _described(wanted, start=start)
        if start and renew and running.system == wanted.system and running.build != wanted.build:
            log.warning("the code, the providers or the models' keys have changed: starting new hosts")
            await cls(running, directory).stop()
            directory, running = await _described(wanted, start=start)
        for what in ("system", "data_dir", "storage") if start else ("data_dir",):
            if getattr(running, what) != getattr(wanted, what):
                raise WrongState(
                    f"what runs in namespace {wanted.namespace!r} has {what} {str(getattr(running, what))!r}, "
                    f"not {str(getattr(wanted, what))!r}: stop it first (`agency down`), or use another folder"
                )
        if start:
            await asyncio.to_thread(write_note, running)
        joined = cls(running, directory, why)
        if start:
            tell(await joined.ray())
        return joined

    async def ray(self) -> RayInUse:
        """The Ray that this process has joined: which, whose, why, and what others can reach of it."""
        if self._ray is None or time.monotonic() - self._looked_at_ray > RAY_SECONDS:
            self._looked_at_ray = time.monotonic()
            self._ray = await asyncio.to_thread(ray_in_use, self.settings.data_dir, self._why_this_ray)
        return self._ray

    async def close(self) -> None:
        """Let go of it; everything goes on."""
        await self._connection.close()

    async def stop(self) -> None:
        """Put every thread to rest and end all hosts. The next `join` continues it all."""
        await self.close()
        directory = self.caller.directory
        try:
            await directory.stop.remote()
        except ray.exceptions.RayActorError:
            return
        ray.kill(directory)
        remove_note(self.settings.data_dir)

    async def down(self) -> None:
        """Put every thread to rest and end all hosts, and a local Ray with them. The next `join` continues it all."""
        await self.stop()
        await asyncio.to_thread(local_ray.stop, self.settings.data_dir)

    async def status(self) -> Status:
        status: Status = await self.caller.ask_directory("status")
        return status.model_copy(update={"ray": await self.ray()})

    async def metrics(self) -> Metrics:
        """Figures: what has happened since the directory began, and how much there is now."""
        metrics: Metrics = await self.caller.ask_directory("metrics")
        return metrics

    async def ready(self) -> Readiness:
        """Whether a thread could run now. It answers within a few seconds and never raises, whatever is broken."""
        if not ray.is_initialized():
            return Readiness(ready=False, reason="this process has left Ray")
        try:
            async with asyncio.timeout(READY_SECONDS):
                found: Readiness = await self.caller.ask_directory("readiness")
                return found
        except TimeoutError:
            return Readiness(ready=False, reason="the directory does not answer")
        except AgencyError as error:
            return Readiness(ready=False, reason=str(error), told=error.told)
        except Exception as error:  # a broken Ray raises whatever it likes
            reason = f"the directory cannot be reached: {type(error).__name__}"
            return Readiness(ready=False, reason=reason, told=NO_ANSWER)

    async def server_log(self, after: int = 0, wait: float = 0.0) -> ServerLog:
        """The latest lines that hosts and the directory have logged, after one of them; with `wait`, as soon as there
        are any, or after so many seconds."""
        check_within("the time to wait for the log", wait, 0, LOG_SECONDS)
        lines: ServerLog = await self.caller.ask_directory("server_log", after, wait)
        return lines

    # Tickets.

    async def issue_ticket(self, grant: str, seconds: float, holder: Holder = ("", "")) -> str:
        """A ticket that can be redeemed once, by any client of this installation, for what it grants. Of a holder's
        tickets, only so many are kept; those of other agencies are never touched by it."""
        check_within("a ticket's time in seconds", seconds, 0, TICKET_SECONDS)
        if len(grant) > GRANT_CHARS:
            raise InvalidInput(f"what a ticket grants is text of at most {GRANT_CHARS} characters")
        ticket = secrets.token_urlsafe(32)  # ours, so that it goes no further
        await self.caller.ask_directory("issue_ticket", digest(ticket), grant, seconds, holder)
        return ticket

    async def redeem_ticket(self, ticket: str) -> str | None:
        """What a ticket grants, once; None if there is no such ticket, or no more."""
        grant: str | None = await self.caller.ask_directory("redeem_ticket", digest(ticket))
        return grant

    # Agencies.

    async def create_agency(self, name: str, *, agency_id: str | None = None) -> AgencyHandle:
        """A new agency. With the id of an agency that was made under this name, that agency."""
        given = checked_name(name)
        address = Address(f"agc_{secrets.token_hex(8)}" if agency_id is None else agency_id)
        info = AgencyInfo(id=address.agency, name=given, created_at=timestamp(now_ms()))
        await self.caller.create_agency(info)
        return AgencyHandle(self._connection, info.id)

    async def agencies(self, after: str = "", limit: int = 1_000) -> list[AgencyInfo]:
        """The agencies, the newest first; `after` is the `place_of` the last one on the page before."""
        check_within("a page of agencies", limit, 1, 1_000, whole=True)
        return await asyncio.to_thread(self._list_agencies, after, limit)

    def _list_agencies(self, after: str, limit: int) -> list[AgencyInfo]:
        places = {agency: self._place(agency) for agency in self._connection.files.agencies()}
        self._places = {agency: place for agency, place in places.items() if place is not None}
        listed = sorted(
            ((place, agency) for agency, place in self._places.items() if not after or place < after), reverse=True
        )
        found = (self._peek(agency) for _, agency in listed)
        return list(itertools.islice((info for info in found if info is not None), limit))

    def _place(self, agency: str) -> str | None:
        """An agency's place in the list. An agency keeps it, so it is read once."""
        known = self._places.get(agency)
        if known is None and (info := self._peek(agency)) is not None:
            return place_of(info)
        return known

    def _peek(self, agency: str) -> AgencyInfo | None:
        return peek_info(self._connection.files.of(Address(agency)))

    def agency(self, agency_id: str) -> AgencyHandle:
        """An agency by its id; that there is none shows when it is used."""
        return AgencyHandle(self._connection, agency_id)

    def thread(self, agency_id: str, thread_id: str) -> ThreadHandle:
        return ThreadHandle(self._connection, Address(agency_id, thread_id))

    @property
    def caller(self) -> Caller:
        return self._connection.caller

    def subscribe(self, address: Address, after: int) -> Subscription:
        """The events of a thread after a seq, then those to come, as JSON."""
        return self._connection.watcher.subscribe(address, after)

    def subscribe_agency(self, agency_id: str, after: int | None) -> AgencySubscription:
        """The stored events of all of an agency's threads after a cursor, then those to come; None is from now on."""
        return self._connection.subscribe_agency(agency_id, after)

    async def agency_events(self, agency_id: str, after: int, limit: int) -> list[NumberedEvent]:
        """A page of the stored events of all of an agency's threads, as JSON with their cursors."""
        return await self._connection.agency_events(agency_id, after, limit)

    async def where(self, addresses: Sequence[Address]) -> Mapping[Address, str]:
        """The hosts of the threads that are awake; the others hibernate."""
        found: Mapping[Address, str] = await self.caller.ask_directory("where", list(addresses))
        return found


def place_of(agency: AgencyInfo) -> str:
    """Where an agency stands in the list of all, whatever is added or deleted."""
    return f"{agency.created_at}_{agency.id}"


async def _described(wanted: Settings, *, start: bool) -> tuple[Handle, Settings]:
    """The directory, and what it was started with."""
    waits = REPLACED.delays()
    deadline = time.monotonic() + REPLACED_SECONDS
    while time.monotonic() < deadline:
        directory = await asyncio.to_thread(_directory, wanted, start=start)
        try:
            return directory, unwrap(await _description(directory, wanted))
        except WrongState:
            ray.kill(directory)
            raise
        except ActorDiedError as error:
            if _never_lived(error):
                broken = Unavailable(f"the directory cannot start: {reason_of(error)}")
                raise broken.telling(CANNOT_START) from error
            await asyncio.sleep(next(waits))  # it was stopped, and Ray has not freed its name yet
    raise Unavailable("the directory that was stopped does not go away")


async def _description(directory: Handle, wanted: Settings) -> Settings | Refusal:
    """What a directory answers. If it takes long, look whether the nodes can import it at all: if they cannot, Ray goes
    on starting it without a word."""
    answering = asyncio.ensure_future(directory.describe.remote())
    done, _ = await asyncio.wait({answering}, timeout=SILENT_SECONDS)
    if not done:
        await preflight.check(wanted)
    try:
        async with asyncio.timeout(DIRECTORY_SECONDS):
            answered: Settings | Refusal = await answering
            return answered
    except TimeoutError:
        raise Unavailable(f"the directory does not answer within {DIRECTORY_SECONDS:g} seconds") from None


def _never_lived(error: ActorDiedError) -> bool:
    """Whether an actor died because it could not be made, as Ray tells it."""
    return "creation task" in str(error)


def _directory(wanted: Settings, *, start: bool) -> Handle:
    try:
        return find_directory(wanted.namespace)
    except ValueError:
        if not start:
            raise NotFound(f"nothing runs in namespace {wanted.namespace!r}") from None
        remote: Any = ray.remote(Directory)
        node = ray.get_runtime_context().get_node_id()
        return remote.options(
            name="Directory",
            namespace=wanted.namespace,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=100_000,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=wanted.storage == "shared"),
        ).remote(wanted)
