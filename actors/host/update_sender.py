"""What the threads of a host have done, on its way to the agency hosts and so into their agencies' files.

Noting progress costs a thread a few microseconds, because only the latest state of each thread is kept. Updates go in
batches: soon if a status has changed or a client watches the agency, else once a second. A thread stays in the unsent
set until the agency host confirms that its agency's file is written; what a host that dies has not sent, the directory
reads from the threads' files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import structlog
from ray.exceptions import RayError

from actors.address import Address
from actors.agency_hosts import home_of
from actors.background import Background
from actors.totals import EventCounts
from actors.updates import ThreadUpdate, UpdatesTaken
from agency.clock import now_ms
from agency.errors import AgencyError
from agency.events import NewEvent
from agency.runtime import ThreadProgress
from agency.spending import Spent
from agency.turn.state import PauseReason, RunStatus

log = structlog.get_logger(__name__)

SOON = 0.03
LATER = 1.0
RETRY_SECONDS = 0.25
CONFIRM_SECONDS = 1.0


Send = Callable[[str, list[ThreadUpdate]], Awaitable[UpdatesTaken]]
"""To an agency host, by its name."""


class TrackedThread:
    """The latest state of one thread, as far as its host knows."""

    __slots__ = (
        "_sender",
        "address",
        "at",
        "born",
        "children",
        "confirmed",
        "reason",
        "seq",
        "spent",
        "status",
        "title",
    )

    def __init__(self, sender: UpdateSender, address: Address, born: str) -> None:
        self._sender = sender
        self.address = address
        self.born = born
        self.seq = self.at = self.confirmed = 0
        self.status: RunStatus | None = None
        self.reason: PauseReason | None = None
        self.spent = self.children = Spent()
        self.title = ""

    def advance(self, progress: ThreadProgress) -> None:
        """The thread has committed something."""
        seq, run, status, reason, events, self.spent, self.children, self.title = progress
        changed = status != self.status or reason != self.reason
        if changed and run:
            named = {"agency": self.address.agency, "thread": self.address.thread, "run": run}
            log.info(f"run {status}" if reason is None else f"run {status}: {reason}", **named)
        self.seq, self.status, self.reason, self.at = seq, status, reason, now_ms()
        self._sender.note(self, events, changed=changed)

    @property
    def update(self) -> ThreadUpdate:
        assert self.status is not None
        reached = (self.seq, self.status, self.reason, self.at)
        return ThreadUpdate(
            self.address, self.born, *reached, spent=self.spent, children=self.children, title=self.title
        )


class UpdateSenders:
    """One for each agency host: what one of them cannot take now holds up nothing for the others."""

    def __init__(self, send: Send, agency_hosts: Sequence[str], background: Background) -> None:
        self._agency_hosts = agency_hosts
        self.counts = EventCounts()
        """Of all of them."""
        self._senders = {name: UpdateSender(name, send, self.counts, background) for name in agency_hosts}

    def track(self, address: Address, born: str) -> TrackedThread:
        """Begin to track a thread, or go on with it."""
        return self._for(address.agency).track(address, born)

    async def confirmed(self, tracked: TrackedThread) -> None:
        """Return when what a thread has done so far is written, or that takes too long."""
        await self._for(tracked.address.agency).confirmed(tracked)

    def unconfirmed(self, agency: str) -> list[ThreadUpdate]:
        """The updates of an agency's threads that are not known to be written."""
        return self._for(agency).unconfirmed(agency)

    def latest(self, address: Address) -> ThreadUpdate | None:
        """The latest state of a thread, sent or not; None if it has done nothing here."""
        return self._for(address.agency).latest(address)

    def end(self, address: Address) -> ThreadUpdate | None:
        """A thread has left this host. Returns its update if it is not known to be written."""
        return self._for(address.agency).end(address)

    def _for(self, agency: str) -> UpdateSender:
        return self._senders[home_of(agency, self._agency_hosts)]


class UpdateSender:
    """The updates for one agency host."""

    def __init__(self, to: str, send: Send, counts: EventCounts, background: Background) -> None:
        self._to = to
        self._send = send
        self._counts = counts
        self._background = background
        self._tracked: dict[Address, TrackedThread] = {}
        self._unsent: set[TrackedThread] = set()
        self._sending: set[TrackedThread] = set()
        """What the batch under way contains. A thread that advances meanwhile is in `_unsent` again."""
        self._watched: frozenset[str] = frozenset()
        self._timer: asyncio.TimerHandle | None = None
        self._busy = False
        self._batch_ended = asyncio.Event()

    def track(self, address: Address, born: str) -> TrackedThread:
        """Begin to track a thread, or go on with it. A thread with another time of creation is another thread."""
        known = self._tracked.get(address)
        if known is None or known.born != born:
            known = self._tracked[address] = TrackedThread(self, address, born)
        return known

    def note(self, tracked: TrackedThread, events: Sequence[NewEvent], *, changed: bool) -> None:
        """A tracked thread has advanced."""
        self._counts.count(events)
        self._unsent.add(tracked)
        self._send_within(SOON if changed or tracked.address.agency in self._watched else LATER)

    async def confirmed(self, tracked: TrackedThread) -> None:
        """Return when the agency host has written what a thread has done so far; at the latest after `CONFIRM_SECONDS`,
        because a thread must get on without its agency, too."""
        wanted = tracked.seq
        if tracked.confirmed < wanted:
            self._send_within(0)
        with suppress(TimeoutError):
            async with asyncio.timeout(CONFIRM_SECONDS):
                while tracked.confirmed < wanted:
                    await self._batch_ended.wait()

    def unconfirmed(self, agency: str) -> list[ThreadUpdate]:
        """The updates of an agency's threads that are not confirmed yet."""
        return [tracked.update for tracked in self._unsent | self._sending if tracked.address.agency == agency]

    def latest(self, address: Address) -> ThreadUpdate | None:
        """The latest state of a thread, sent or not; None if it has done nothing here."""
        tracked = self._tracked.get(address)
        return tracked.update if tracked is not None and tracked.seq else None

    def end(self, address: Address) -> ThreadUpdate | None:
        """A thread has left this host. Returns its update if it is not confirmed yet."""
        tracked = self._tracked.pop(address, None)
        if tracked is None or not (tracked in self._unsent or tracked in self._sending):
            return None
        return tracked.update

    def _send_within(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._timer is not None and self._timer.when() > at:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = loop.call_at(at, self._start_sending)

    def _start_sending(self) -> None:
        self._timer = None
        if self._busy:  # one batch at a time, so that updates of a thread arrive in order
            self._send_within(SOON)
        else:
            self._busy = True
            self._background.go(self._send_batch())

    async def _send_batch(self) -> None:
        """Send what there is. Updates that do not arrive go with the next batch."""
        self._sending, self._unsent = self._unsent, set()
        updates = {tracked: tracked.update for tracked in self._sending}
        left = frozenset(tracked.address.agency for tracked in self._sending)
        try:
            taken = await self._send(self._to, list(updates.values()))
            self._watched, left = taken.watched, taken.left
        except (RayError, AgencyError) as error:
            log.info(f"{self._to} takes no updates now", error=type(error).__name__)
        finally:
            missing = {tracked for tracked in updates if tracked.address.agency in left}
            for tracked in updates.keys() - missing:
                tracked.confirmed = updates[tracked].seq
            self._unsent |= missing
            self._sending = set()
            self._busy = False
            self._batch_ended.set()
            self._batch_ended = asyncio.Event()
        if missing:
            self._send_within(RETRY_SECONDS)
