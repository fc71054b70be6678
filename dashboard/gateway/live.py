"""Events as they happen, to one client: over a WebSocket, or as server-sent events.

A feed is pulled: a client that does not take its events stops the pulling, and after a while it is sent away, to come
back with the number of the last event that it has got. So slow clients cost a bounded buffer and never an event.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import Protocol

from pydantic_core import from_json
from starlette.responses import StreamingResponse
from starlette.types import Message, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from agency.errors import AgencyError, NotFound, RateLimited
from dashboard.gateway.metrics import FEED_LAG, OPEN_FEEDS

GONE, REVOKED, TOO_SLOW, RESTART = 4404, 4401, 4408, 1012
"""Why a socket is closed: the thread or agency was deleted; the key was revoked; it did not read; come back."""

CLOSE_SECONDS = 1.0
STREAM = "text/event-stream"

StillValid = Callable[[], Awaitable[bool]]


class Feed(Protocol):
    """Events as JSON, until it is closed or what it follows is deleted. Iterating anew goes on where it was."""

    def __aiter__(self) -> AsyncIterator[str]: ...

    def close(self) -> None: ...


class Lines:
    """How clients are served: how many, how often they are told that the line is alive, how slow they may be."""

    def __init__(self, most: int, beat: float, slow: float) -> None:
        self._most = most
        self._open = 0
        self.beat = beat
        self.slow = slow

    def __enter__(self) -> None:
        if self._open >= self._most:
            raise RateLimited(f"{self._most} live connections are open, and that is all that this gateway serves")
        self._open += 1
        OPEN_FEEDS.set(self._open)

    def __exit__(self, *exception: object) -> None:
        self._open -= 1
        OPEN_FEEDS.set(self._open)


async def _beating(feed: Feed, seconds: float) -> AsyncIterator[str | None]:
    """What the feed gives, and None whenever it gives nothing for so long."""
    source = aiter(feed)
    while True:
        try:
            async with asyncio.timeout(seconds):
                event = await anext(source)
        except TimeoutError:
            source = aiter(feed)  # which goes on where that one was
            yield None
        else:
            yield event


class _Watch:
    """Looks at a client's key again from time to time, however busy the line is."""

    def __init__(self, still_valid: StillValid, every: float) -> None:
        self._still_valid = still_valid
        self._every = every
        self._looked = time.monotonic()

    async def is_valid(self) -> bool:
        if time.monotonic() - self._looked < self._every:
            return True
        self._looked = time.monotonic()
        return await self._still_valid()


class LiveStream(StreamingResponse):
    """A feed as server-sent events, to a reader who may take only so long for each; `number` names an event's id."""

    def __init__(self, subscribe: Callable[[], Feed], number: str, lines: Lines, still_valid: StillValid) -> None:
        super().__init__((), media_type=STREAM, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._subscribe = subscribe
        self._number = number
        self._lines = lines
        self._still_valid = still_valid

    async def stream_response(self, send: Send) -> None:
        async def bounded(message: Message) -> None:
            async with asyncio.timeout(self._lines.slow):
                await send(message)

        with self._lines, closing(self._subscribe()) as feed:
            self.body_iterator = _as_sent_events(feed, self._number, self._lines, self._still_valid)
            await super().stream_response(bounded)


async def over_socket(websocket: WebSocket, feed: Feed, lines: Lines, still_valid: StillValid) -> str:
    """Send a feed over a socket that was accepted, until one of the two ends: why it was."""
    sending = asyncio.create_task(_send(websocket, feed, lines, still_valid))
    reading = asyncio.create_task(_read(websocket))
    try:
        await asyncio.wait({sending, reading}, return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():
            return "the client went away"
        code, reason = sending.result()
        with suppress(RuntimeError, TimeoutError):  # it has gone away by itself, or does not even take this
            async with asyncio.timeout(CLOSE_SECONDS):
                await websocket.close(code, reason)
        return reason
    finally:
        for task in (sending, reading):
            task.cancel()
        await asyncio.gather(sending, reading, return_exceptions=True)


async def _send(websocket: WebSocket, feed: Feed, lines: Lines, still_valid: StillValid) -> tuple[int, str]:
    """Send until something is in the way: the code with which to close, and why."""
    since = _now()
    watch = _Watch(still_valid, lines.beat)
    try:
        async for event in _beating(feed, lines.beat):
            if not await watch.is_valid():
                return REVOKED, "the key was revoked"
            if event is None:
                continue
            async with asyncio.timeout(lines.slow):
                await websocket.send_text(event)
            _measure(event, since)
    except TimeoutError:
        return TOO_SLOW, "too slow: come back with the number of the last event that you have"
    except NotFound as error:
        return GONE, str(error)[:100]
    except (AgencyError, WebSocketDisconnect):
        pass
    return RESTART, "come back with the number of the last event that you have"


async def _read(websocket: WebSocket) -> None:
    """Return when the client has gone away. What it says meanwhile means nothing."""
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass


async def _as_sent_events(feed: Feed, number: str, lines: Lines, still_valid: StillValid) -> AsyncIterator[str]:
    since = _now()
    watch = _Watch(still_valid, lines.beat)
    yield "retry: 1000\n\n"
    try:
        async for event in _beating(feed, lines.beat):
            if not await watch.is_valid():
                return
            if event is None:
                yield ": the line is alive\n\n"
                continue
            found = from_json(event)[number]
            yield f"data: {event}\n\n" if found is None else f"id: {found}\ndata: {event}\n\n"
            _measure(event, since)
    except AgencyError:
        return


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _measure(event: str, since: str) -> None:
    """How long an event took to get here, if it has happened while the client was listening."""
    start = event.find('"ts":"') + 6
    happened = event[start : event.find('"', start)]
    if happened[:23] >= since[:23]:
        with suppress(ValueError):
            FEED_LAG.observe(max(0.0, (datetime.now(UTC) - datetime.fromisoformat(happened)).total_seconds()))
