"""A host as the directory knows it, from the order to start it until its end."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import psutil
import ray
from ray.exceptions import RayError

from actors.caller import Handle
from actors.directory.placement import HostSlot
from actors.directory.pulse import LoopTime, Pulse
from actors.host.host import HostLoad
from actors.status import HostState, HostStatus

STATUS_SECONDS = 3.0
DRAIN_SECONDS = 20.0


class HostEntry:
    def __init__(self, handle: Handle, slot: HostSlot, clock: LoopTime) -> None:
        self.handle = handle
        self.slot = slot
        self.pulse = Pulse(clock, lambda: handle.ping.remote())
        self.pid: int | None = None
        """Known once it is ready."""
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.cleaned_up: asyncio.Task[None] | None = None
        self.replaced = False
        """Whether it was ended because it was silent for too long."""

    @property
    def name(self) -> str:
        return self.slot.name

    @property
    def answers(self) -> bool:
        """Whether it is ready, and can take a thread now."""
        return self.slot.ready and not self.slot.silent

    @property
    def silence(self) -> str:
        """Since when it is silent, and why, as far as that is known."""
        by = self.pulse.blocked_by
        since = f"it has not answered for {self.pulse.silent_for:.0f} seconds"
        return since if by is None else f"{since}: {by.told}"

    def fail(self, error: RayError) -> None:
        self.opened.set_exception(error)
        self.opened.exception()  # marks it as seen: if no caller waits for this host, asyncio must not complain

    async def end(self, here: str) -> None:
        """Let it close what it has open, within a while, and end it."""
        if not self.slot.silent:
            with suppress(RayError, TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS):
                    await self.handle.drain.remote()
        self.kill(here)

    def kill(self, here: str) -> None:
        """End its process. One that is stopped cannot end itself: on this node, `here`, it is killed at once, and on
        another one by Ray, some seconds later."""
        if self.pid is not None and self.slot.node == here:
            with suppress(psutil.Error, IndexError):
                process = psutil.Process(self.pid)
                if process.cmdline()[0].startswith("ray::"):  # else its number is another process's by now
                    process.kill()
        ray.kill(self.handle)

    async def status(self) -> HostStatus:
        load: HostLoad | None = None
        if self.answers:
            with suppress(RayError, TimeoutError):
                async with asyncio.timeout(STATUS_SECONDS):
                    load = await self.handle.load.remote()
        slot = self.slot
        return HostStatus(
            name=self.name,
            node=slot.node,
            role=slot.role,
            state=self._state(told=load is not None),
            threads=tuple(sorted(map(str, slot.threads))),
            pid=self.pid,
            working=load.working if load is not None else 0,
            rss_bytes=load.rss_bytes if load is not None else None,
            problem=self.silence if slot.silent else "",
        )

    def _state(self, *, told: bool) -> HostState:
        if self.slot.silent:
            return "silent"
        if not self.slot.ready:
            return "starting"
        return "ready" if told else "busy"
