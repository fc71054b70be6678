"""Making threads: the directory says in which host, and the host is told from here.

The places of threads that are made at the same time are asked for together, with one call. A host that does what it was
told is all that it takes; whatever else happens, the directory sees to it, which knows what goes on in its hosts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from ray.exceptions import RayError

from actors.address import Address
from actors.agency.creation import Creation
from actors.answers import Refusal, unwrap
from actors.caller import Caller, Location
from agency.errors import AgencyError

AT_ONCE = 100
"""Places that are asked for with one call."""

_Asking = tuple[Address, "asyncio.Future[Location | None]"]


class Orders:
    def __init__(self, caller: Caller, patience: float, placed: Callable[[Address, Location], None]) -> None:
        self._caller = caller
        self._patience = patience
        """Seconds after which a host that has not answered is left to the directory."""
        self._placed = placed
        self._waiting: list[_Asking] = []
        self._asking: asyncio.Task[None] | None = None

    async def create(self, creation: Creation) -> None:
        """Make a thread, if it is not there yet, and begin its first run."""
        address = Address(creation.metadata.agency_id, creation.metadata.id)
        alone = creation.blueprint.isolation == "dedicated"
        location = None if alone else await self._place(address)
        if location is not None and await self._is_made(address, location, creation):
            self._placed(address, location)
            return
        ordered = 0 if location is None else location.activation
        self._placed(address, await self._caller.ask_directory("create", creation, ordered))

    async def _is_made(self, address: Address, location: Location, creation: Creation) -> bool:
        """Whether a host has made it as it was told to; if not, nothing is known."""
        try:
            host = await self._caller.host_named(location.host)
            async with asyncio.timeout(self._patience):
                answered: Any = await host.activate.remote(address, location.activation, creation, False, None)
        except (RayError, TimeoutError):
            return False
        return answered is None

    async def _place(self, address: Address) -> Location | None:
        """The place for a new thread; None if it is not that simple."""
        asked: asyncio.Future[Location | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((address, asked))
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await asked

    async def _ask(self) -> None:
        while self._waiting:
            together, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
            found = await self._reserve([address for address, _ in together])
            for (_, asked), location in zip(together, found, strict=True):
                if not asked.done():
                    asked.set_result(location)

    async def _reserve(self, addresses: Sequence[Address]) -> Sequence[Location | None]:
        try:
            found: Sequence[Location | None] | Refusal = await self._caller.directory.reserve.options(
                max_task_retries=0
            ).remote(list(addresses))
            return unwrap(found)
        except (RayError, AgencyError):
            return [None] * len(addresses)
