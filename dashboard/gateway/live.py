"""Events as they happen, to one client: over a WebSocket, or as server-sent events.

The gateway pulls events from a source only as fast as the client takes them. A client that takes too long for one is
disconnected, and comes back with the number of the last event that it has. So a slow client costs a bounded buffer and
never an event. Events pass through as JSON with their numbers beside them: this module must never parse one, because it
would do so for every client.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from typing import Protocol

from starlette.responses import StreamingResponse
from starlette.types import Message, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from agency.errors import AgencyError, Damaged, NotFound, RateLimited
from dashboard.gateway.frames import send_texts
from dashboard.gateway.metrics import FEED_LAG, OPEN_FEEDS
from dashboard.gateway.patience import Patience
from dashboard.gateway.problems import told_by
from dashboard.gateway.questions import Questions
from dashboard.gateway.shares import Shares
from dashboard.gateway.streaming import PatientStream, gathered

GONE, REVOKED, TOO_SLOW, DAMAGED, RESTART = 4404, 4401, 4408, 4503, 1012
"""Why a socket is closed: the thread or agency was deleted; the key was revoked; it did not read; its file is damaged;
come back."""

DAMAGED_TOLD = "the file of what is followed is damaged: those who run the server can put a backup in its place"

CLOSE_SECONDS = 1.0
STREAM = "text/event-stream"

StillValid = Callable[[], Awaitable[bool]]
Batch = Sequence[tuple[int, str]]
"""Events that came together, at least one."""


class EventSource(Protocol):
    """Events as JSON with their numbers, until it is closed or the thread or agency is deleted.

    The number is the seq of a thread's event or the cursor of an agency's. Text that a model streams has 0, since a
    client cannot come back to it. Iterating again continues where the iteration before stopped.
    """

    def batches(self) -> AsyncIterator[Batch]: ...

    def close(self) -> None: ...


class LiveConnections:
    """The live connections of a gateway: how many may be open, how often each gets a sign of life, and how long a
    client may take for an event."""

    def __init__(self, most: int, beat: float, slow: float) -> None:
        self._most = most
        self._open = 0
        self._shares = Shares(most, "live connections")
        self.latest: Questions[int] = Questions()
        """What the number of the latest event is, which each socket asks before it opens."""
        self.beat = beat
        self.slow = slow

    @contextmanager
    def place(self, agency: str | None) -> Iterator[None]:
        """A place for a live connection, of a key of an agency or of the owner."""
        if self._open >= self._most:
            raise RateLimited(f"{self._most} live connections are open, and that is all that this gateway serves")
        self._shares.take(agency)
        self._count(1)
        try:
            yield
        finally:
            self._shares.give_back(agency)
            self._count(-1)

    def _count(self, more: int) -> None:
        self._open += more
        OPEN_FEEDS.set(self._open)


async def _beating(source: EventSource, seconds: float) -> AsyncIterator[Batch]:
    """The batches of a source, and an empty one whenever it has given none for so many seconds."""
    batches = source.batches()
    with closing(Patience(seconds)) as patience:
        while True:
            try:
                with patience:
                    batch = await anext(batches)
            except TimeoutError:
                batches = source.batches()  # the timeout has ended the old one; the new one continues where it was
                yield ()
            else:
                yield batch


class _KeyCheck:
    """Checks a client's key again from time to time, however busy its connection is."""

    def __init__(self, still_valid: StillValid, every: float) -> None:
        self._still_valid = still_valid
        self._every = every
        self._checked_at = time.monotonic()

    async def passes(self) -> bool:
        if time.monotonic() - self._checked_at < self._every:
            return True
        self._checked_at = time.monotonic()
        return await self._still_valid()


class LiveStream(StreamingResponse):
    """A source as server-sent events, to a client that may take only so long for each."""

    def __init__(
        self,
        subscribe: Callable[[], EventSource],
        connections: LiveConnections,
        agency: str | None,
        still_valid: StillValid,
    ) -> None:
        super().__init__((), media_type=STREAM, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._subscribe = subscribe
        self._connections = connections
        self._agency = agency
        self._still_valid = still_valid

    async def stream_response(self, send: Send) -> None:
        async def bounded(message: Message) -> None:
            async with asyncio.timeout(self._connections.slow):
                await send(message)

        with self._connections.place(self._agency), closing(self._subscribe()) as source:
            self.body_iterator = _as_sent_events(source, self._connections, self._still_valid)
            await super().stream_response(bounded)


class WholeHistory(PatientStream):
    """Stored events as one JSON document, page after page.

    The first page is there when the answer begins, so that a thread that does not exist is a refusal. If a later one
    cannot be had, the answer breaks off, and the client sees that it is not whole.
    """

    def __init__(self, first: list[str], rest: AsyncIterator[list[str]], slow: float) -> None:
        super().__init__(_as_document(first, rest), slow, media_type="application/json")


async def _as_document(first: list[str], rest: AsyncIterator[list[str]]) -> AsyncIterator[str]:
    yield f'{{"events":[{",".join(first)}'
    async for events in rest:
        if events:
            yield f",{','.join(events)}"
    yield '],"next":null}'


async def over_socket(
    websocket: WebSocket, source: EventSource, connections: LiveConnections, still_valid: StillValid
) -> str:
    """Send events over an accepted socket until the source ends or the client leaves; the reason."""
    sending = asyncio.create_task(_send(websocket, source, connections, still_valid))
    reading = asyncio.create_task(_read(websocket))
    try:
        await asyncio.wait({sending, reading}, return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():
            return "the client went away"
        code, reason = sending.result()
        with suppress(RuntimeError, TimeoutError):  # the client has left, or does not even take this
            async with asyncio.timeout(CLOSE_SECONDS):
                await websocket.close(code, reason)
        return reason
    finally:
        for task in (sending, reading):
            task.cancel()
        await asyncio.gather(sending, reading, return_exceptions=True)


async def _send(
    websocket: WebSocket, source: EventSource, connections: LiveConnections, still_valid: StillValid
) -> tuple[int, str]:
    """Send until that is no longer possible: the code to close the socket with, and the reason."""
    since = _now()
    key = _KeyCheck(still_valid, connections.beat)
    patience = Patience(connections.slow)
    try:
        async for batch in _beating(source, connections.beat):
            if not await key.passes():
                return REVOKED, "the key was revoked"
            if batch:  # else nothing: a socket's sign of life are the server's WebSocket pings
                await send_texts(websocket, (text for _, text in batch), patience)
                _measure(batch, since)
    except TimeoutError:
        return TOO_SLOW, "too slow: come back with the number of the last event that you have"
    except NotFound as error:
        return GONE, told_by(error)[:100]
    except Damaged:
        return DAMAGED, DAMAGED_TOLD
    except (AgencyError, WebSocketDisconnect):
        pass
    finally:
        patience.close()
    return RESTART, "come back with the number of the last event that you have"


async def _read(websocket: WebSocket) -> None:
    """Return when the client has left. Messages from it are ignored."""
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass


async def _as_sent_events(
    source: EventSource, connections: LiveConnections, still_valid: StillValid
) -> AsyncIterator[str | bytes]:
    since = _now()
    key = _KeyCheck(still_valid, connections.beat)
    yield "retry: 1000\n\n"
    try:
        async for batch in _beating(source, connections.beat):
            if not await key.passes():
                return
            if not batch:
                yield ": the line is alive\n\n"
                continue
            for piece in gathered(map(_as_sent_event, batch)):
                yield piece
            _measure(batch, since)
    except Damaged:
        yield f"retry: 60000\n: {DAMAGED_TOLD}\n\n"
    except AgencyError:
        return


def _as_sent_event(event: tuple[int, str]) -> bytes:
    number, text = event
    return (f"id: {number}\ndata: {text}\n\n" if number else f"data: {text}\n\n").encode()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _measure(batch: Batch, since: str) -> None:
    """Record how long the first event of a batch took to get here, if it happened while the client was connected.

    `ts` stands near the beginning of the JSON, so this costs far less than parsing.
    """
    _, event = batch[0]
    start = event.find('"ts":"') + 6
    happened = event[start : event.find('"', start)]
    if happened[:23] >= since[:23]:
        with suppress(ValueError):
            FEED_LAG.observe(max(0.0, (datetime.now(UTC) - datetime.fromisoformat(happened)).total_seconds()))
