"""The two clients behind one, so that each promise is tested of both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing, closing
from typing import Any, Literal

from agency import Event
from agency.client import Agency, AsyncClient, AsyncThread, Client, Thread

Face = Literal["sync", "async"]
FACES: tuple[Face, ...] = ("sync", "async")


async def call(face: Face, url: str, method: str, *args: Any, secret: str | None = None, **kwargs: Any) -> Any:
    """Call a method of the thread `a/t`."""
    if face == "async":
        async with AsyncClient(url, secret=secret) as client:
            return await getattr(client.agency("a").thread("t"), method)(*args, **kwargs)

    def wait() -> Any:
        with Client(url, secret=secret) as client:
            return getattr(client.agency("a").thread("t"), method)(*args, **kwargs)

    return await asyncio.to_thread(wait)


async def collect(face: Face, url: str, enough: Callable[[list[Event]], bool], **kwargs: Any) -> list[Event]:
    """The events of the thread `a/t` until they are enough; then the connection is closed."""
    if face == "async":
        async with AsyncClient(url) as client:
            return await _collect(client.agency("a").thread("t"), enough, **kwargs)

    def wait() -> list[Event]:
        with Client(url) as client:
            return _collect_waiting(client.agency("a").thread("t"), enough, **kwargs)

    return await asyncio.to_thread(wait)


async def _collect(thread: AsyncThread, enough: Callable[[list[Event]], bool], **kwargs: Any) -> list[Event]:
    got: list[Event] = []
    async with aclosing(thread.events(**kwargs)) as events:
        async for event in events:
            got.append(event)
            if enough(got):
                break
    return got


def _collect_waiting(thread: Thread, enough: Callable[[list[Event]], bool], **kwargs: Any) -> list[Event]:
    got: list[Event] = []
    with closing(thread.events(**kwargs)) as events:
        for event in events:
            got.append(event)
            if enough(got):
                break
    return got


def requests_of(handle: Client | Agency | Thread) -> Any:
    """A handle whose operations return their requests and send nothing."""

    def unsent(request: Any) -> Any:
        return request

    transport: Any = handle._transport
    transport.ask = transport.list = transport.follow = unsent
    made: Any = handle
    made._made_thread = made._made_agency = unsent
    return handle
