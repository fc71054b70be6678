"""Locks by address: a thread is opened and closed by one task at a time, different threads side by side."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Set
from contextlib import asynccontextmanager

from actors.address import Address


class ActivationLocks:
    """A lock exists as long as a task holds it or waits for it, so there are only as many as threads that move."""

    def __init__(self) -> None:
        self._locks: dict[Address, asyncio.Lock] = {}
        self._users: Counter[Address] = Counter()

    @property
    def moving(self) -> Set[Address]:
        """The threads that are being opened or closed."""
        return self._users.keys()

    @asynccontextmanager
    async def of(self, address: Address) -> AsyncIterator[None]:
        self._users[address] += 1
        try:
            async with self._locks.setdefault(address, asyncio.Lock()):
                yield
        finally:
            self._users[address] -= 1
            if not self._users[address]:
                del self._users[address], self._locks[address]
