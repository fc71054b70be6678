"""The agency hosts of an installation: started with it, watched, and ended with it.

Ray starts one that has died again, under its name and with what it was given, so there is nothing to place: an agency's
id tells where it lives. What is left to do is to end one that answers no more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psutil
import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.agency_host.agency_host import AgencyHost
from actors.agency_hosts import home_of, names_of
from actors.answers import Refusal
from actors.background import Background
from actors.caller import Handle
from actors.directory.pulse import LoopTime, Pulse
from actors.settings import Settings
from actors.status import AgencyHostLoad, AgencyHostStatus, HostState
from actors.updates import ThreadUpdate, UpdatesTaken
from agency.errors import Unavailable

log = logging.getLogger(__name__)

LOADING_SECONDS = 1.0
"""How long a readiness check waits for agency hosts that start."""

STATUS_SECONDS = 3.0
STOP_SECONDS = 5.0
AGAIN_SECONDS = 1.0


class AgencyHostEntry:
    def __init__(self, name: str, handle: Handle, clock: LoopTime, settings: Settings) -> None:
        self.name = name
        self.handle = handle
        self._clock = clock
        self._patience = settings.silent_after, settings.replace_after
        self.begin()

    def begin(self) -> None:
        """Its process starts. From its first answer on it has to answer soon."""
        self.pulse = Pulse(self._clock, lambda: self.handle.ping.options(max_task_retries=0).remote())
        self.load: AgencyHostLoad | None = None
        """What it last told."""

    async def ask(self) -> AgencyHostLoad | None:
        """What it has awake; None if it does not say so in time."""
        with suppress(RayError, TimeoutError):
            async with asyncio.timeout(STATUS_SECONDS):
                told: AgencyHostLoad = await self.handle.load.options(max_task_retries=0).remote()
                if self.load is None:
                    self.pulse.opened(*self._patience)
                self.load = told
                return told
        return None

    def state(self, *, told: bool) -> HostState:
        if self.pulse.is_silent:
            return "silent"
        if self.load is None:
            return "starting"
        return "ready" if told else "busy"

    @property
    def problem(self) -> str:
        return f"it has not answered for {self.pulse.silent_for:.0f} seconds" if self.pulse.is_silent else ""


class AgencyFleet:
    def __init__(self, settings: Settings, clock: LoopTime, background: Background) -> None:
        self._settings = settings
        self._clock = clock
        self._background = background
        self._node = ray.get_runtime_context().get_node_id()
        self.names = names_of(settings.agency_hosts)
        self._entries: dict[str, AgencyHostEntry] = {}

    def start(self) -> None:
        """Start them, or find those that an earlier directory has started."""
        for name in self.names:
            entry = self._entries[name] = AgencyHostEntry(name, self._start(name), self._clock, self._settings)
            self._background.go(self._open(entry))

    def _start(self, name: str) -> Handle:
        shared = self._settings.storage == "shared"
        here = NodeAffinitySchedulingStrategy(self._node, soft=False)  # the files are on this machine, and nowhere else
        remote: Any = ray.remote(AgencyHost)
        return remote.options(
            name=name,
            namespace=self._settings.namespace,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            max_restarts=-1,
            max_task_retries=-1,  # else the call by which it begins may be lost when it is started again
            max_concurrency=100_000,
            scheduling_strategy="SPREAD" if shared else here,
        ).remote(name, self.names, self._settings)

    async def _open(self, entry: AgencyHostEntry) -> None:
        while await entry.ask() is None:  # noqa: ASYNC110  # the event would be in another process
            await asyncio.sleep(AGAIN_SECONDS)

    def beat(self) -> None:
        """Look whether they answer. To be called every so often."""
        for entry in self._entries.values():
            if entry.pulse.look() == "lost":
                log.error("%s is ended and started again: %s", entry.name, entry.problem)
                self._kill(entry)
                entry.pulse.stop()
                entry.begin()
                self._background.go(self._open(entry))

    def _kill(self, entry: AgencyHostEntry) -> None:
        """End its process; Ray starts it again. One that is stopped cannot end itself: on this node it is killed at
        once, and on another one by Ray, some seconds later."""
        if entry.load is not None and entry.load.node == self._node:
            with suppress(psutil.Error, IndexError):
                process = psutil.Process(entry.load.pid)
                if process.cmdline()[0].startswith("ray::"):  # else its number is another process's by now
                    process.kill()
        ray.kill(entry.handle, no_restart=False)

    async def stop(self) -> None:
        """Have them close their agencies, and end them for good."""
        await asyncio.gather(*(self._stop(entry) for entry in self._entries.values()))

    async def _stop(self, entry: AgencyHostEntry) -> None:
        with suppress(RayError, TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await entry.handle.stop.options(max_task_retries=0).remote()
        ray.kill(entry.handle)

    # Passing on what a host that has died could not tell.

    def record(self, updates: Sequence[ThreadUpdate]) -> None:
        """Have updates written that no host will send again, in the background and as often as it takes."""
        by_host: dict[str, list[ThreadUpdate]] = {}
        for update in updates:
            by_host.setdefault(home_of(update.address.agency, self.names), []).append(update)
        for name, theirs in by_host.items():
            self._background.go(self._record(name, theirs))

    async def _record(self, name: str, updates: list[ThreadUpdate]) -> None:
        while updates:
            try:
                take = self._entries[name].handle.take_updates.options(max_task_retries=0)
                taken: UpdatesTaken = await take.remote(updates)
                updates = [update for update in updates if update.address.agency in taken.left]
            except RayError as error:
                log.info("%s takes no updates now: %s", name, type(error).__name__)
            if updates:
                await asyncio.sleep(AGAIN_SECONDS)

    # Looking at them.

    async def problem(self) -> Refusal | None:
        """Why one of them cannot serve agencies now."""
        found = await asyncio.gather(*(self._problem(entry) for entry in self._entries.values()))
        return next((refusal for refusal in found if refusal is not None), None)

    async def _problem(self, entry: AgencyHostEntry) -> Refusal | None:
        if entry.pulse.is_silent:
            return Refusal(Unavailable.code, f"{entry.name} is silent: {entry.problem}")
        try:
            async with asyncio.timeout(LOADING_SECONDS):
                refused: Refusal | None = await entry.handle.ready.options(max_task_retries=0).remote()
                return refused
        except TimeoutError:
            return Refusal(Unavailable.code, f"{entry.name} is still being started, or loads the system")
        except RayError:
            return Refusal(Unavailable.code, f"{entry.name} is being started again")

    async def statuses(self) -> tuple[AgencyHostStatus, ...]:
        return tuple(await asyncio.gather(*(self._status(entry) for entry in self._entries.values())))

    async def _status(self, entry: AgencyHostEntry) -> AgencyHostStatus:
        load = await entry.ask()
        last = load or entry.load
        return AgencyHostStatus(
            name=entry.name,
            node="" if last is None else last.node,
            state=entry.state(told=load is not None),
            agencies=() if last is None else last.agencies,
            pid=None if last is None else last.pid,
            rss_bytes=None if load is None else load.rss_bytes,
            problem=entry.problem,
        )
