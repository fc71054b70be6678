"""What middleware keep open: connections and pools, for a thread or for all threads of the process.

The one idea: a middleware that cannot open keeps no thread shut. Its tools are not available until it can; that is
tried again, less and less often, whenever a model is about to be called. Opening and closing have a bound on time, and
what they raise goes no further than here. What began to open is closed, also if opening failed.

Nothing of this is stored. A process that dies has closed everything, and the next one opens it anew.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from agency.backoff import Backoff
from agency.define.hooks import AnyMiddleware, Middleware, ProcessContext
from agency.define.provided import Provision
from agency.define.system import AgentSystem, declared_by
from agency.errors import HookFailed
from agency.store.draft import Draft
from agency.thread.supply import NAME, Supply
from agency.thread.workers import TimedOut, is_ours, what_failed, within
from agency.tracebacks import is_unexpected, log_failure

log = logging.getLogger(__name__)

OPEN_SECONDS = 5.0
CLOSE_SECONDS = 5.0
AGAIN = Backoff(1.0, 60.0)

UNAVAILABLE = "tools_unavailable"
"""The kind of the warning that a middleware is not open."""

HOOKS = ("on_process_open", "on_process_close", "on_thread_open", "on_thread_close")

Hook = Callable[[], Awaitable[None]]


def opens(mw: AnyMiddleware) -> bool:
    """Whether a middleware has something to open or to close."""
    return any(getattr(type(mw), hook) is not getattr(Middleware, hook) for hook in HOOKS)


@dataclass(slots=True)
class Opening:
    """One thing that a middleware opens: whether it is open, why not, and when it is tried again."""

    name: str
    scope: str
    is_open: bool = False
    problem: str = ""
    _began: bool = False
    _failed: int = 0
    _again_at: float = 0.0

    @property
    def due(self) -> bool:
        return not self.is_open and time.monotonic() >= self._again_at

    async def open(self, hook: Hook, close: Hook) -> None:
        """Open it. What that raises is the problem, and what was half open is closed."""
        await self.close(close)  # an attempt that was cut off may have left something
        self._began = True
        problem = await self._problem(f"on_{self.scope}_open", hook, OPEN_SECONDS)
        if not problem:
            self.is_open, self.problem, self._failed = True, "", 0
            return
        await self.close(close)
        self._failed += 1
        wait = AGAIN.delay(self._failed)
        self.problem, self._again_at = problem, time.monotonic() + wait
        log.warning("%s; it is tried again after %g s", problem, wait)

    async def close(self, hook: Hook) -> None:
        """Close what began to open. What that raises is logged."""
        if self._began:
            self.is_open = self._began = False
            if problem := await self._problem(f"on_{self.scope}_close", hook, CLOSE_SECONDS):
                log.warning("%s", problem)

    async def _problem(self, called: str, hook: Hook, seconds: float) -> str:
        """What went wrong, in words; nothing if it went well."""
        try:
            await within(seconds, hook())
        except TimedOut:
            return str(HookFailed(self.name, called, f"it took longer than {seconds:g} s"))
        except HookFailed as error:
            return str(error)
        except BaseException as error:
            if is_ours(error):
                raise
            if is_unexpected(error):
                log_failure(log, f"middleware {self.name} failed in {called}", error)
            return str(HookFailed(self.name, called, what_failed(error)))
        return ""


@dataclass(slots=True)
class ProcessOpening:
    """One middleware in this process. What it has opened belongs to the event loop in which it did."""

    mw: AnyMiddleware
    loop: asyncio.AbstractEventLoop
    opening: Opening
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def open(self) -> str:
        async with self.lock:
            if self.opening.due:
                context = ProcessContext(declared_by(self.mw))
                await self.opening.open(lambda: self.mw.on_process_open(context), self.mw.on_process_close)
        return self.opening.problem

    async def close(self) -> None:
        async with self.lock:
            await self.opening.close(self.mw.on_process_close)


class ProcessOpenings:
    """The middleware of one system that are open in this process."""

    def __init__(self, provision: Provision) -> None:
        self._provision = provision
        self._supply: tuple[asyncio.AbstractEventLoop, Supply] | None = None
        self._known: dict[str, ProcessOpening] = {}
        self._users = 0

    async def provide(self) -> Supply:
        """What the system provides, open for this event loop if that is possible now."""
        loop = asyncio.get_running_loop()
        if self._supply is None or self._supply[0] is not loop:
            self._supply = loop, Supply(self._provision)
        supply = self._supply[1]
        await supply.open()
        return supply

    @property
    def lacks(self) -> Supply | None:
        """What the system provides, if it is not open."""
        return self._supply[1] if self._supply is not None and self._supply[1].waiting else None

    async def open(self, mw: AnyMiddleware) -> str:
        """Open a middleware, unless it is open or has just failed. Returns the problem, if there is one."""
        loop = asyncio.get_running_loop()
        known = self._known.get(mw.name)
        if known is None or known.loop is not loop:
            known = self._known[mw.name] = ProcessOpening(mw, loop, Opening(mw.name, "process"))
        return await known.open()

    def hold(self) -> None:
        """One more runtime uses them."""
        self._users += 1

    async def release(self) -> None:
        """A runtime has closed its threads; the last one closes everything."""
        self._users -= 1
        if self._users > 0:
            return
        loop, known = asyncio.get_running_loop(), list(self._known.values())
        self._known.clear()
        await asyncio.gather(*(each.close() for each in known if each.loop is loop))
        supply, self._supply = self._supply, None
        if supply is not None and supply[0] is loop:
            await supply[1].close()  # last, because middleware may use it


_OPENINGS: WeakKeyDictionary[AgentSystem, ProcessOpenings] = WeakKeyDictionary()


def openings_of(system: AgentSystem) -> ProcessOpenings:
    """Those of a system, in this process."""
    return _OPENINGS.setdefault(system, ProcessOpenings(system.provision))


async def try_openings(system: AgentSystem) -> dict[str, str]:
    """Open what middleware share in a process, and close it again. Returns the problems by their names; empty ones are
    none."""
    wanted, openings = [mw for mw in system.middleware if opens(mw)], openings_of(system)
    openings.hold()
    try:
        supplied = {NAME: (await openings.provide()).problem} if system.provision.factory is not None else {}
        problems = await asyncio.gather(*(openings.open(mw) for mw in wanted))
    finally:
        await openings.release()
    return {**supplied, **{mw.name: problem for mw, problem in zip(wanted, problems, strict=True)}}


class ThreadOpenings:
    """The middleware of one thread that have something to open."""

    def __init__(
        self,
        middleware: Sequence[AnyMiddleware],
        process: ProcessOpenings,
        on_open: Callable[[AnyMiddleware, Draft], Awaitable[None]],
        on_close: Callable[[AnyMiddleware], Awaitable[None]],
    ) -> None:
        self._middleware = [mw for mw in middleware if opens(mw)]
        self._process = process
        self._on_open = on_open
        self._on_close = on_close
        self._openings = {mw.name: Opening(mw.name, "thread") for mw in self._middleware}
        self._closed = bool(self._middleware)

    @property
    def waiting(self) -> bool:
        """Whether something is not open."""
        return self._closed or self._process.lacks is not None

    @property
    def problems(self) -> Mapping[str, str]:
        """Why middleware, or what the system provides, are not open, by their names."""
        lacks = self._process.lacks
        found = {} if lacks is None or not lacks.problem else {NAME: lacks.problem}
        if self._closed:
            found |= {name: each.problem for name, each in self._openings.items() if each.problem}
        return found

    async def open(self, draft: Draft) -> None:
        """Open what is not open and may be tried. What the hooks write goes to the draft."""
        if self._process.lacks is not None:
            await self._process.provide()
        closed = [mw for mw in self._middleware if not self._openings[mw.name].is_open]
        problems = await asyncio.gather(*(self._process.open(mw) for mw in closed))
        for mw, problem in zip(closed, problems, strict=True):
            opening = self._openings[mw.name]
            if problem:
                opening.problem = problem
            elif opening.due:
                await self._open(mw, opening, draft)
        self._closed = not all(each.is_open for each in self._openings.values())

    async def _open(self, mw: AnyMiddleware, opening: Opening, draft: Draft) -> None:
        mark = draft.mark()
        await opening.open(lambda: self._on_open(mw, draft), lambda: self._on_close(mw))
        if opening.problem:
            draft.undo(mark)

    async def close(self) -> None:
        """Close whatever began to open, side by side."""
        await asyncio.gather(*(self._close(mw) for mw in self._middleware))

    async def _close(self, mw: AnyMiddleware) -> None:
        await self._openings[mw.name].close(lambda: self._on_close(mw))
