"""The watchdog of a host: an OS thread that notices when the event loop does not turn, and whose code holds it up.

All threads of a host share one event loop. An async tool that sleeps or computes instead of awaiting holds up all of
them, and the host cannot tell, because it would do so from that loop. The watchdog looks at the loop from outside:
which function it is in, and, by the context of what runs there, whose code that is (`agency.thread.doing`).

It says so at once, to the log and to the directory, and notes it for the call, which warns its run once it goes on. It
counts only its own waiting: a process that was stopped finds its loop late and itself as well, and blames no call.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

from actors.address import Address
from agency.thread.doing import DOING, Doing
from agency.tracebacks import log_stack, stack_at

log = logging.getLogger(__name__)

REPORT_AGAIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class BlockedLoop:
    """What holds up a host's event loop, as far as that is known."""

    told: str
    """In words."""
    address: Address | None = None
    """The thread whose code it is."""
    run_id: str = ""
    kind: str = ""
    """That of the warning for its run."""


class Watchdog:
    def __init__(
        self, blocked_after: float, is_in_use: Callable[[], bool], report: Callable[[BlockedLoop], None]
    ) -> None:
        """While the loop is not in use, it is let sleep."""
        self._after = blocked_after
        self._every = blocked_after / 2
        self._is_in_use = is_in_use
        self._report = report
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def begin(self) -> None:
        """Watch the loop that runs this."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def _watch(self) -> None:
        assert self._loop is not None
        while True:
            time.sleep(self._every)
            if not self._is_in_use():
                continue
            turned = threading.Event()
            try:
                self._loop.call_soon_threadsafe(turned.set)
            except RuntimeError:
                return  # the loop was closed
            self._wait(turned)

    def _wait(self, turned: threading.Event) -> None:
        """Until the loop turns."""
        late, reported, looked = 0.0, 0.0, time.monotonic()
        by: BlockedLoop | None = None
        doing: Doing | None = None
        while not turned.wait(self._every):
            now = time.monotonic()
            if now - looked < 2 * self._every:  # else this process, or the whole machine, stood still meanwhile
                late += self._every
            looked = now
            if late < self._after:
                continue
            frame, doing = self._look()
            if turned.is_set():
                break
            if doing is not None:
                doing.blocks(late)
            if not reported or late - reported >= REPORT_AGAIN_SECONDS:
                by = _blocked_loop(doing)
                if not reported:
                    log_stack(log, f"{by.told} ({late:.1f} s so far)", stack_at(frame), logging.WARNING)
                reported = late
                self._report(by)
        if doing is not None:
            doing.goes_on()
        if by is not None:
            log.warning("%s: it turns again after %.1f s", by.told, late)

    def _look(self) -> tuple[FrameType | None, Doing | None]:
        """Where the loop is, and what for."""
        frame = sys._current_frames().get(self._thread)
        context = _context_of(frame)
        return frame, None if context is None else context.get(DOING)


def _context_of(frame: FrameType | None) -> contextvars.Context | None:
    """The context of what an event loop is running: the loop's own frame has the handle that has it."""
    while frame is not None:
        if frame.f_code is asyncio.Handle._run.__code__:
            found: contextvars.Context | None = getattr(frame.f_locals.get("self"), "_context", None)
            return found
        frame = frame.f_back
    return None


def _blocked_loop(doing: Doing | None) -> BlockedLoop:
    if doing is None:
        return BlockedLoop("code that is not known holds up the event loop of this host")
    thread = doing.thread
    told = f"{doing.told} of thread {thread.id} holds up the event loop of its host"
    return BlockedLoop(told, Address(thread.agency_id, thread.id), doing.run_id, doing.warning)
