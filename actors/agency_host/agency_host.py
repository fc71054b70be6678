"""The agency host: a Ray actor, hence a process, in which agencies live while they are awake.

An installation has some of them, and the id of an agency tells which one it lives in (`actors.agency_hosts`). So the
control plane of one tenant is in another process than that of most others, and clients and hosts call it without asking
anybody where it is. The directory only starts these processes; it is asked for the places of new threads, and hears
nothing of what agencies do.

An agency host may die at any time: Ray starts it again, and it finds in its agencies' files what they had begun and
when their schedules are due. Hosts send it again what it had not written.

What it consists of: `agencies` (those that are awake), `services` (what is done for them), `turns` (whose call is
next), `orders` (making threads), and `index_writer` and `index_refresh` (what hosts report about threads).
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import time
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import psutil
import ray
from filelock import FileLock, Timeout

from actors import logs, process_title
from actors.address import Address, Files
from actors.agency.agency import is_urgent, reads_index
from actors.agency.peek import is_unfinished, peek_due
from actors.agency_host.agencies import Agencies
from actors.agency_host.index_refresh import IndexRefresh
from actors.agency_host.index_writer import REST, IndexWriter
from actors.agency_host.orders import Orders
from actors.agency_host.services import AgencyServices
from actors.agency_host.turns import Turns
from actors.agency_hosts import home_of
from actors.answers import Refusal, answer
from actors.background import Background, to_the_end
from actors.caller import Caller, Located, Location, find_directory
from actors.file_limit import raise_file_limit
from actors.log_sender import LogSender
from actors.raylet import has_ended, raylet
from actors.sealing import unseal
from actors.settings import Settings
from actors.status import AgencyHostLoad
from actors.system_loader import SystemLoader
from actors.updates import ThreadUpdate, UpdatesTaken
from agency.api.bodies import ServerLogLine
from agency.api.tenancy import AgencyInfo
from agency.errors import AgencyError, Unavailable
from agency.secrets import remember_environment

log = logging.getLogger(__name__)

MAINTENANCE_SECONDS = 5.0
LARGE = 1_000_000
"""Bytes of a call, of which reading them is a turn of its own."""

BEGIN_AGAIN_SECONDS = 0.5
LOCK_SECONDS = 60.0
LOCK_POLL_SECONDS = 0.1
ANNOUNCE_SECONDS = 10.0

_placed: ContextVar[list[tuple[Address, Location]]] = ContextVar("placed")


class AgencyHost:
    def __init__(self, name: str, all_names: tuple[str, ...], settings: Settings) -> None:
        process_title.take_over()
        raise_file_limit()
        os.environ.update(
            unseal(settings.data_dir, settings.environment)
        )  # the system's module may need it to be imported
        remember_environment()
        logs.set_up(settings.log_level)
        self._name = name
        self._all_names = all_names
        self._settings = settings
        self._raylet = raylet()
        self._files = Files(settings.data_dir)
        self._started = asyncio.Event()
        self._stopping = False
        self._background = Background(name)
        self._system = SystemLoader(settings)
        self._turns = Turns(settings.calls_most, settings.calls_bytes)
        self._remote: Caller | None = None
        self._lock: FileLock | None = None
        self._log_sender = LogSender(name, self._send_log)
        logging.getLogger().addHandler(self._log_sender)
        # When Ray starts it again, the directory need not know: it orders itself to begin.
        ray.get_runtime_context().current_actor.start.remote()

    async def start(self) -> None:
        """Begin, as often as it takes: all calls of agencies wait for that."""
        process_title.show(self._name, "agencies")
        while not self._started.is_set():
            try:
                await self._begin()
            except Exception:
                log.exception("%s cannot begin yet", self._name)
                await asyncio.sleep(BEGIN_AGAIN_SECONDS)

    async def _begin(self) -> None:
        """Find what the agencies that live here were doing."""
        directory = await asyncio.to_thread(find_directory, self._settings.namespace)
        self._remote = Caller(directory, self._settings.namespace)
        orders = Orders(self._remote, self._settings.silent_after, _note_place)
        self._services = AgencyServices(
            self._files, self._remote, orders, self._usable_agencies, self._turns, self._background
        )
        self._agencies = Agencies(self._settings, self._system.loaded, self._services)
        self._index = IndexWriter(self._agencies, self._background, 0.0 if self._settings.files.shared else REST)
        self._refresh = IndexRefresh(self._remote, self._index)
        self._log_sender.begin()
        await self._take_lock()
        with suppress(AgencyError, TimeoutError):  # a directory that begins anew has hosts read them anyway
            # The process before this one may have died before it could tell that an agency's terms have changed.
            async with asyncio.timeout(ANNOUNCE_SECONDS):
                await self._remote.ask_directory("announce", None)
        self._started.set()
        self._background.go(self._services.schedule_alarms.ring())
        self._background.go(self._recover())
        self._background.go_on(min(MAINTENANCE_SECONDS, self._settings.hibernate_after), self._maintain)

    async def _take_lock(self) -> None:
        """An agency has one process at a time that writes its file. The one before this one may not be quite gone, as
        when its node was cut off; it ends by itself then."""
        folder = self._settings.data_dir / "agency-hosts"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self._lock or FileLock(folder / f"{self._name}.lock", thread_local=False)
        while True:
            try:
                await asyncio.to_thread(lock.acquire, timeout=LOCK_SECONDS, poll_interval=LOCK_POLL_SECONDS)
            except Timeout:
                log.warning("%s waits for the process before it, which still has its agencies", self._name)
            else:
                self._lock = lock  # held until this process ends
                return

    async def _recover(self) -> None:
        """Have the agencies that live here finish what was interrupted, and set the alarms of their schedules."""
        for agency in await asyncio.to_thread(self._files.agencies):
            if home_of(agency, self._all_names) != self._name:
                continue
            path = self._files.of(Address(agency))
            if await asyncio.to_thread(is_unfinished, path):
                self._background.go(self._services.finish(agency))
            if (due := await asyncio.to_thread(peek_due, path)) is not None:
                # No later, because the agency may be awake by now and have set an earlier time itself.
                self._services.schedule_alarms.no_later(Address(agency), due)

    async def _maintain(self) -> None:
        if has_ended(self._raylet):
            # This node was cut off and given up for dead: its agencies live in another process by now.
            os._exit(1)
        await self._agencies.sweep(time.monotonic() - self._settings.hibernate_after)

    # What clients and hosts ask.

    async def create_agency(self, info: AgencyInfo) -> Refusal | None:
        """Make an agency, if it is not there yet."""

        async def create() -> None:
            await (await self._usable_agencies()).create(info)

        return await answer(create())

    async def call_agency(self, agency: str, name: str, packed: bytes) -> Any:
        """Call an operation of an agency, when it is the agency's turn. With what it answers, the caller learns where
        the threads are that were made for it."""
        placed: list[tuple[Address, Location]] = []
        _placed.set(placed)

        async def call() -> Any:
            if is_urgent(name):
                await self._turns.again(agency)
                return await self._serve(agency, name, packed)
            async with self._turns.call(agency, len(packed)):
                return await to_the_end(self._serve(agency, name, packed))

        answered = await answer(call())
        return Located(answered, tuple(placed)) if placed else answered

    async def _serve(self, agency: str, name: str, packed: bytes) -> Any:
        agencies = await self._usable_agencies()
        if reads_index(name):
            await self._refresh.refresh(agency)
            await self._turns.again(agency)
        args, kwargs = pickle.loads(packed)  # as Ray does with all arguments
        if len(packed) > LARGE:
            await self._turns.again(agency)
        return await agencies.call(agency, name, args, kwargs)

    async def _usable_agencies(self) -> Agencies:
        """The agencies, once they can work: the process has started and the system is imported."""
        await self._started.wait()
        if self._stopping:
            raise Unavailable("the installation is being stopped")
        await self._system.load()
        return self._agencies

    async def take_updates(self, updates: list[ThreadUpdate]) -> UpdatesTaken:
        """A host, or the directory in the place of one that died, tells how far threads have got. What is not in `left`
        is written when this returns."""
        await self._started.wait()
        left = await self._index.write(updates)
        return UpdatesTaken(self._agencies.watched(), left)

    # What the directory asks.

    async def ping(self) -> None:
        """The answer says that the event loop turns."""

    async def ready(self) -> Refusal | None:
        """Answers once it can serve agencies, or why it cannot."""

        async def ready() -> None:
            await self._usable_agencies()

        return await answer(ready())

    async def load(self) -> AgencyHostLoad:
        """What it has awake."""
        await self._started.wait()
        return AgencyHostLoad(
            node=ray.get_runtime_context().get_node_id(),
            pid=os.getpid(),
            agencies=tuple(self._agencies.ids()),
            rss_bytes=psutil.Process().memory_info().rss,
        )

    async def stop(self) -> None:
        """Close all agencies; the next process finds what they had begun."""
        self._stopping = True
        if self._started.is_set():
            await self._agencies.close()

    async def _send_log(self, lines: list[ServerLogLine]) -> None:
        if self._remote is not None:
            await self._remote.directory.take_log.options(max_task_retries=0).remote(lines)


def _note_place(address: Address, location: Location) -> None:
    """A thread was made for the call that is being served."""
    placed = _placed.get(None)
    if placed is not None:
        placed.append((address, location))
