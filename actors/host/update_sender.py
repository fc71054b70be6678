"""What the threads of a host have done, on its way to the directory and so into their agencies' files.

Noting it costs a thread a few microseconds, for only where each of them stands now is kept. It goes in batches: soon if
a status has changed or somebody watches the agency, else once a second. Nothing is forgotten before the directory says
that it is written; what a host that dies has not said yet, the directory reads from the files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog
from ray.exceptions import RayError

from actors.address import Address
from actors.background import Background
from actors.totals import Tally, Totals
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


Send = Callable[[list[ThreadUpdate], Totals], Awaitable[UpdatesTaken]]


class TrackedThread:
    """Where one thread stands, as far as its host knows."""

    __slots__ = ("_newsroom", "address", "at", "born", "children", "reason", "seq", "spent", "status")

    def __init__(self, newsroom: UpdateSender, address: Address, born: str) -> None:
        self._newsroom = newsroom
        self.address = address
        self.born = born
        self.seq = self.at = 0
        self.status: RunStatus | None = None
        self.reason: PauseReason | None = None
        self.spent = self.children = Spent()

    def go_on(self, progress: ThreadProgress) -> None:
        """The thread has got further."""
        seq, run, status, reason, events, self.spent, self.children = progress
        changed = status != self.status or reason != self.reason
        if changed and run:
            named = {"agency": self.address.agency, "thread": self.address.thread, "run": run}
            log.info(f"run {status}" if reason is None else f"run {status}: {reason}", **named)
        self.seq, self.status, self.reason, self.at = seq, status, reason, now_ms()
        self._newsroom.note(self, events, changed=changed)

    @property
    def news(self) -> ThreadUpdate:
        assert self.status is not None
        told = (self.seq, self.status, self.reason, self.at)
        return ThreadUpdate(self.address, self.born, *told, spent=self.spent, children=self.children)


class UpdateSender:
    def __init__(self, send: Send, background: Background) -> None:
        self._send = send
        self._background = background
        self._stories: dict[Address, TrackedThread] = {}
        self._unsent: set[TrackedThread] = set()
        self._sending: set[TrackedThread] = set()
        self._watched: frozenset[str] = frozenset()
        self._timer: asyncio.TimerHandle | None = None
        self._busy = False
        self.tally = Tally()

    def story(self, address: Address, born: str) -> TrackedThread:
        """Begin to follow a thread, or go on with it."""
        known = self._stories.get(address)
        if known is None or known.born != born:
            known = self._stories[address] = TrackedThread(self, address, born)
        return known

    def note(self, story: TrackedThread, events: Sequence[NewEvent], *, changed: bool) -> None:
        """A story goes on."""
        self.tally.count(events)
        self._unsent.add(story)
        self._send_within(SOON if changed or story.address.agency in self._watched else LATER)

    def tell_again(self) -> None:
        """There is a new directory, which may have missed something."""
        self._unsent.update(story for story in self._stories.values() if story.seq)
        if self._unsent:
            self._send_within(SOON)

    def untold(self, agency: str) -> list[ThreadUpdate]:
        """What the directory does not know yet of an agency's threads."""
        return [story.news for story in self._unsent | self._sending if story.address.agency == agency]

    def latest(self, address: Address) -> ThreadUpdate | None:
        """Where a thread stands, told or not; None if it has done nothing here."""
        story = self._stories.get(address)
        return story.news if story is not None and story.seq else None

    def end(self, address: Address) -> ThreadUpdate | None:
        """A thread is no longer here. What the directory does not know of it yet, if anything."""
        story = self._stories.pop(address, None)
        untold = story is not None and (story in self._unsent or story in self._sending)
        return story.news if story is not None and untold else None

    def _send_within(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._timer is not None and self._timer.when() > at:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = loop.call_at(at, self._go)

    def _go(self) -> None:
        self._timer = None
        if self._busy:
            self._send_within(SOON)
        else:
            self._busy = True
            self._background.go(self._deliver())

    async def _deliver(self) -> None:
        """Send what there is. What does not arrive goes with the next."""
        self._sending, self._unsent = self._unsent, set()
        left = frozenset(story.address.agency for story in self._sending)
        try:
            taken = await self._send([story.news for story in self._sending], self.tally.totals())
            self._watched, left = taken.watched, taken.left
        except (RayError, AgencyError) as error:
            log.info("the directory does not take news", error=type(error).__name__)
        finally:
            missing = {story for story in self._sending if story.address.agency in left}
            self._unsent |= missing
            self._sending = set()
            self._busy = False
        if missing:
            self._send_within(RETRY_SECONDS)
