"""The connections of an SDK: one pool for each event loop that asks for it, shared by all providers of a process.

A pool's connections belong to the loop in which they were opened. It needs no closing by callers: an async generator
holds it open, and `asyncio.run` closes the generators that are left when it shuts its loop down.

The SDKs' aiohttp transport takes a third to a half less CPU for a streamed reply than their default.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from agency.guarded.addresses import AddressGuard
from agency.models.providers.entry import GuardedProvider, Provider

if TYPE_CHECKING:
    import httpx2

CONNECTIONS = 10_000
"""So many calls go on at a time; more wait, and time out if they wait for too long."""

IDLE_SECONDS = 30.0
"""How long a connection is kept for the next call: tools take their time between two."""

CONNECT_SECONDS = 10.0


class Closable(Protocol):
    async def aclose(self) -> None: ...


Pool = TypeVar("Pool", bound=Closable)


class Pools(Generic[Pool]):
    def __init__(self, make: Callable[[], Pool]) -> None:
        """`make` is called within the loop that wants a pool; what it raises reaches the caller of `get`."""
        self._make = make
        self._open: dict[asyncio.AbstractEventLoop, tuple[Pool, AsyncGenerator[Pool, None]]] = {}

    async def get(self) -> Pool:
        """The pool of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._open:
            holding = self._hold(loop)
            self._open[loop] = (await anext(holding), holding)  # it awaits nothing, so no other task runs meanwhile
        return self._open[loop][0]

    async def _hold(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[Pool, None]:
        pool = self._make()
        try:
            yield pool
        finally:
            del self._open[loop]
            await pool.aclose()


def connections(kind: Callable[..., httpx2.AsyncClient]) -> httpx2.AsyncClient:
    """A pool of the SDK's own kind. It follows no redirection: a key is for the address that it was given for."""
    return kind(limits=_limits(), follow_redirects=False)


def _limits() -> httpx2.Limits:
    import httpx2

    return httpx2.Limits(max_connections=CONNECTIONS, keepalive_expiry=IDLE_SECONDS)


_GUARDED: dict[tuple[str, ...], Pools[httpx2.AsyncClient]] = {}


async def pool_for(entry: Provider, common: Pools[httpx2.AsyncClient]) -> httpx2.AsyncClient:
    """The pool for an entry: that of its SDK, or for an agency's own entry one that reaches only what agencies may."""
    if not isinstance(entry, GuardedProvider):
        return await common.get()
    private = entry.outgoing.private_hosts
    if private not in _GUARDED:
        _GUARDED[private] = Pools(lambda: _guarded(private))
    return await _GUARDED[private].get()


def _guarded(private_hosts: tuple[str, ...]) -> httpx2.AsyncClient:
    from agency.guarded.client import guarded_client

    return guarded_client(AddressGuard(private_hosts), limits=_limits())


def patience(timeout_ms: int) -> httpx2.Timeout:
    """How long a call waits for a connection, and then for the next piece of the reply."""
    import httpx2

    seconds = timeout_ms / 1000
    return httpx2.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))
