"""One client of an SDK for each event loop that asks for it.

A client is a pool of connections, and those belong to the loop in which they were opened. Nobody has to close it: an
async generator holds it open, and whoever shuts a loop down (`asyncio.run`) closes the generators that are left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    async def close(self) -> None: ...


Client = TypeVar("Client", bound=Closable)


class Clients(Generic[Client]):
    def __init__(self, make: Callable[[], Client]) -> None:
        """`make` is called within the loop that wants a client; what it raises is raised to whoever asked."""
        self._make = make
        self._open: dict[asyncio.AbstractEventLoop, tuple[Client, AsyncGenerator[Client, None]]] = {}

    async def get(self) -> Client:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._open:
            holding = self._hold(loop)
            self._open[loop] = (await anext(holding), holding)  # nobody else gets a turn before this is done
        return self._open[loop][0]

    async def _hold(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[Client, None]:
        client = self._make()
        try:
            yield client
        finally:
            del self._open[loop]
            await client.close()
