"""Events as they happen, to one client: over a WebSocket, or as server-sent events.

A feed is pulled: a client that does not take its events stops the pulling, and after a while it is sent away, to come
back with the number of the last event that it has got. So slow clients cost a bounded buffer and never an event.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Protocol

from pydantic_core import from_json
from starlette.responses import StreamingResponse
from starlette.types import Message, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from agency.errors import AgencyError, NotFound, RateLimited
from dashboard.gateway.metrics import FEED_LAG, OPEN_FEEDS

GONE, REVOKED, TOO_SLOW, RESTART = 4404, 4401, 4408, 1012
"""Why a socket is closed: the thread or agency was deleted; the key was revoked; it did not read; come back."""

CLOSE_SECONDS = 1.0

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


async def _beating(feed: Feed, seconds: float) -> AsyncGenerator[str | None, None]:
    """What the feed gives, and None whenever it gives nothing for so long."""
    source = aiter(feed)
    try:
        while True:
            try:
                async with asyncio.timeout(seconds):
                    event = await anext(source)
            except TimeoutError:
                source = aiter(feed)  # which goes on where that one was
                yield None
            else:
                yield event
    finally:
        feed.close()


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


class BoundedStream(StreamingResponse):
    """An answer whose reader may take only so long for each piece."""

    def __init__(self, body: AsyncGenerator[str, None], slow: float, **more: Any) -> None:
        super().__init__(body, **more)
        self._body = body
        self._slow = slow

    async def stream_response(self, send: Send) -> None:
        async def bounded(message: Message) -> None:
            async with asyncio.timeout(self._slow):
                await send(message)

        try:
            await super().stream_response(bounded)
        finally:
            await self._body.aclose()


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
    events = _beating(feed, lines.beat)
    watch = _Watch(still_valid, lines.beat)
    try:
        async for event in events:
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
    finally:
        await events.aclose()
    return RESTART, "come back with the number of the last event that you have"


async def _read(websocket: WebSocket) -> None:
    """Return when the client has gone away. What it says meanwhile means nothing."""
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass


async def as_sent_events(feed: Feed, number: str, lines: Lines, still_valid: StillValid) -> AsyncGenerator[str, None]:
    """A feed in the format of server-sent events; `number` names the field that is an event's id."""
    since = _now()
    events = _beating(feed, lines.beat)
    watch = _Watch(still_valid, lines.beat)
    yield "retry: 1000\n\n"
    try:
        async for event in events:
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
    finally:
        await events.aclose()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _measure(event: str, since: str) -> None:
    """How long an event took to get here, if it has happened while the client was listening."""
    start = event.find('"ts":"') + 6
    happened = event[start : event.find('"', start)]
    if happened[:23] >= since[:23]:
        with suppress(ValueError):
            FEED_LAG.observe(max(0.0, (datetime.now(UTC) - datetime.fromisoformat(happened)).total_seconds()))
