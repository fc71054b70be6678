"""Calling an actor, wherever it is. Hosts use it as much as clients do.

Where a thread was found is remembered. If it is no longer there, or the host has died, the directory is asked again,
which wakes the actor if need be; so a call is made at least once. Whatever changes something therefore carries a key
that makes repeating it harmless, or is harmless by nature.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import ray
from ray.exceptions import RayError, RayTaskError

from actors.address import Address
from actors.answers import NotHere, unwrap
from agency.errors import Unavailable

PATIENCE = 60.0
"""Seconds after which a call that reaches nobody is given up."""

RETRY_FIRST = 0.02
RETRY_MOST = 1.0

Value = TypeVar("Value")

Handle = Any
"""A Ray actor's. Ray's own type knows nothing of its methods."""


class HostGone(RayError):
    """A host has died and its name is forgotten; Ray has no word for that."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an actor is awake; `n` tells this activation from any other."""

    host: str
    n: int


def find_directory(namespace: str) -> Handle:
    return ray.get_actor("Directory", namespace=namespace)


class Caller:
    def __init__(self, directory: Handle, namespace: str) -> None:
        self.directory = directory
        self._namespace = namespace
        self._places: dict[Address, Place] = {}
        self._hosts: dict[str, Handle] = {}

    async def call(self, address: Address, method: str, *args: object, **kwargs: object) -> Any:
        """Call a method of an actor and return what it returns, or raise what it refuses with."""

        async def ask(host: Handle) -> Any:
            return await host.call.remote(address, method, args, kwargs)

        return unwrap(await self.at(address, ask))

    async def at(self, address: Address, ask: Callable[[Handle], Awaitable[Value | NotHere]]) -> Value:
        """What a host answers at the place of an actor, once it is there."""
        deadline, wait, missed = time.monotonic() + PATIENCE, RETRY_FIRST, 0
        place: Place | None = None
        while True:
            try:
                place = self._places.get(address) or await self.locate(address, missed)
                missed = place.n
                answered = await ask(await self.host(place))
                if not isinstance(answered, NotHere):
                    return answered
                reason = "it is no longer where it was"
            except RayTaskError:
                raise  # our own fault, and repeating it would not help
            except RayError as error:
                reason = type(error).__name__
                self._hosts.pop(place.host if place is not None else "", None)
                await asyncio.sleep(wait)
                wait = min(2 * wait, RETRY_MOST)
            self._places.pop(address, None)
            if time.monotonic() > deadline:
                raise Unavailable(f"{address} cannot be reached: {reason}")

    async def locate(self, address: Address, missed: int = 0) -> Place:
        """Where an actor is awake; it is woken if it is not. `missed` is an activation that was looked for in vain."""
        place: Place = unwrap(await self.directory.locate.remote(address, missed))
        self._places[address] = place
        return place

    async def host(self, place: Place) -> Handle:
        """The host at a place. Handles are looked up by name and kept: sending them around is slow."""
        handle = self._hosts.get(place.host)
        if handle is None:
            try:
                handle = await asyncio.to_thread(ray.get_actor, place.host, namespace=self._namespace)
            except ValueError as error:
                raise HostGone(f"there is no {place.host}") from error
            self._hosts[place.host] = handle
        return handle

    async def call_agency(self, agency_id: str, method: str, *args: object, **kwargs: object) -> Any:
        """Call a method of an agency. They are all with the directory, and while it restarts, Ray holds the call."""
        return await self.ask_directory("call_agency", agency_id, method, args, kwargs)

    async def ask_directory(self, method: str, *args: object) -> Any:
        try:
            return unwrap(await getattr(self.directory, method).remote(*args))
        except RayTaskError:
            raise
        except RayError as error:
            raise Unavailable(f"the directory cannot be reached: {type(error).__name__}") from error
