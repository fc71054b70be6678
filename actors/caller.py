"""Calling a thread or an agency, wherever it is. Hosts and agency hosts use this as much as clients do.

An agency's id tells in which agency host it lives. Where a thread is, the caller remembers once it was told. If the
thread is no longer there, or its host has died, the caller asks the directory again, which wakes the thread if need be,
and repeats the call. So a call is made at least once, and an operation that changes something must be harmless when it
is repeated (see `operations`).

The caller names the activation that it missed when it asks the directory again. So the directory can tell a caller
whose knowledge is old, and who gets the current location, from one who has found that the current location is wrong.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import pickle
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayError, RayTaskError

from actors.address import Address
from actors.agency_hosts import home_of
from actors.answers import NotHere, unwrap
from agency.api.tenancy import AgencyInfo
from agency.backoff import Backoff
from agency.errors import AgencyError, Unavailable

log = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds after which a call that is never answered is given up."""

NO_ANSWER = "the server did not answer this in time: it may be busy, or be starting again; try again"
"""What callers of a server read if a process of it cannot be reached."""

REMEMBERED = 10_000
RETRIES = Backoff(0.02, 1.0)

Handle = Any
"""A Ray actor's. Ray's own type does not know the actor's methods."""


class HostGone(RayError):
    """A host has died and its name is forgotten. Ray has no error for that."""


class Replaced(RayError):
    """The directory was stopped, and another has taken its place."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a thread is awake, and the number that tells this activation from all others of the thread."""

    host: str
    activation: int


@dataclass(frozen=True, slots=True)
class Located:
    """What an agency answers, and where the threads are that were made for it: who makes a thread calls it next."""

    answered: Any
    places: tuple[tuple[Address, Location], ...]


def find_directory(namespace: str) -> Handle:
    return ray.get_actor("Directory", namespace=namespace)


class Caller:
    def __init__(self, directory: Handle, namespace: str) -> None:
        self.directory = directory
        self._namespace = namespace
        self._locations: dict[Address, Location] = {}
        self._missed: dict[Address, int] = {}  # activations that were no longer there
        self._hosts: dict[str, Handle] = {}
        self._agency_hosts: tuple[str, ...] = ()

    async def call(
        self,
        address: Address,
        method: str,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        done: type[AgencyError] | None = None,
    ) -> Any:
        """Call an operation of a thread: return what it returns, or raise what it refuses with.

        `done` is the refusal that means, if the call had to be repeated, that it was done the first time.
        """

        async def ask(host: Handle) -> Any:
            return await host.call.remote(address, method, args, kwargs or {})

        return await self._until_answered(str(address), functools.partial(self._at, address, ask), done)

    async def call_agency(
        self,
        agency_id: str,
        method: str,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        done: type[AgencyError] | None = None,
    ) -> Any:
        """Call an operation of an agency. The arguments travel as bytes, which are read when it is the agency's turn:
        what one tenant sends costs the others nothing before that."""
        packed = pickle.dumps((args, kwargs or {}), pickle.HIGHEST_PROTOCOL)

        async def call(host: Handle) -> Any:
            asked = host.call_agency.options(max_task_retries=0).remote(agency_id, method, packed)
            try:
                return await asked
            except asyncio.CancelledError:
                ray.cancel(asked)  # it leaves the queue, if it has not begun
                raise

        return await self._at_home(agency_id, call, done)

    async def create_agency(self, info: AgencyInfo) -> None:
        """Make an agency, if it is not there yet."""
        await self._at_home(info.id, lambda host: host.create_agency.remote(info))

    async def _at_home(
        self, agency_id: str, ask: Callable[[Handle], Awaitable[Any]], done: type[AgencyError] | None = None
    ) -> Any:
        """What the agency host answers in which an agency lives."""

        async def answered() -> Any:
            return self._note(await self._ask_agency_host(home_of(agency_id, await self._all_agency_hosts()), ask))

        return await self._until_answered(f"agency {agency_id}", answered, done)

    def _note(self, answered: Any) -> Any:
        if not isinstance(answered, Located):
            return answered
        for address, location in answered.places:
            self._remember(address, location)
        return answered.answered

    async def _all_agency_hosts(self) -> tuple[str, ...]:
        if not self._agency_hosts:
            self._agency_hosts = await self._directory_answers(lambda it: it.agency_hosts.remote())
        return self._agency_hosts

    async def _ask_agency_host(self, name: str, ask: Callable[[Handle], Awaitable[Any]]) -> Any:
        """One that has died is started again under its name. If it was ended for good, the installation was stopped,
        which the directory's fate tells."""
        try:
            return await ask(await self.host_named(name))
        except (ActorDiedError, HostGone):
            self.forget_host(name)
            await self._directory_answers(lambda it: it.agency_hosts.remote())
            raise

    async def _until_answered(
        self, whom: str, ask: Callable[[], Awaitable[Any]], done: type[AgencyError] | None
    ) -> Any:
        deadline, waits, repeated = time.monotonic() + PATIENCE, RETRIES.delays(), False
        while True:
            try:
                answered = await ask()
                if not isinstance(answered, NotHere):
                    return unwrap(answered)
                reason = "it is no longer where it was"
            except RayTaskError:
                raise  # a bug of ours, which repeating the call would repeat
            except RayError as error:
                # The process may have died after it did what was asked and before it answered.
                reason, repeated = type(error).__name__, True
            except AgencyError as error:
                if repeated and done is not None and isinstance(error, done):
                    return None
                raise
            if time.monotonic() > deadline:
                log.warning("%s cannot be reached: %s", whom, reason)
                raise Unavailable(f"{whom} cannot be reached: {reason}").telling(NO_ANSWER)
            await asyncio.sleep(next(waits))

    async def _at(self, address: Address, ask: Callable[[Handle], Awaitable[Any]]) -> Any:
        """What the host of a thread answers. If it is not there, the next try asks the directory again."""
        location = self._locations.get(address) or await self.locate(address, self._missed.pop(address, 0))
        try:
            answered = await ask(await self.host_named(location.host))
        except RayError:
            self.forget_host(location.host)
            self._miss(address, location)
            raise
        if isinstance(answered, NotHere):
            self._miss(address, location)
        return answered

    def _miss(self, address: Address, location: Location) -> None:
        self._locations.pop(address, None)
        self._missed[address] = location.activation

    async def locate(self, address: Address, missed: int = 0) -> Location:
        """Where a thread is awake; it is woken if it is not. `missed` is an activation that was no longer there."""
        known = self._locations.get(address)
        if known is not None and known.activation != missed:
            return known
        location: Location = unwrap(await self._directory_answers(lambda it: it.locate.remote(address, missed)))
        self._remember(address, location)
        return location

    def _remember(self, address: Address, location: Location) -> None:
        while len(self._locations) >= REMEMBERED:
            del self._locations[next(iter(self._locations))]
        self._locations[address] = location

    async def host_named(self, name: str) -> Handle:
        """A host or an agency host. Handles are looked up and kept, because sending handles around is slow."""
        handle = self._hosts.get(name)
        if handle is None:
            try:
                handle = await asyncio.to_thread(ray.get_actor, name, namespace=self._namespace)
            except ValueError as error:
                raise HostGone(f"there is no {name}") from error
            self._hosts[name] = handle
        return handle

    def forget_host(self, name: str) -> None:
        """Look it up anew when it is next needed: it has died, and another one may have its name."""
        self._hosts.pop(name, None)

    def _forget_hosts(self) -> None:
        """The hosts of another directory are others, though they have the same names and numbers."""
        self._hosts.clear()
        self._locations.clear()
        self._missed.clear()
        self._agency_hosts = ()

    async def ask_directory(self, method: str, *args: object) -> Any:
        def call(directory: Handle) -> Awaitable[Any]:
            asked: Awaitable[Any] = getattr(directory, method).remote(*args)
            return asked

        try:
            try:
                return unwrap(await self._directory_answers(call))
            except Replaced:
                return unwrap(await self._directory_answers(call))
        except RayTaskError:
            raise
        except RayError as error:
            log.warning("the directory cannot be reached: %s", type(error).__name__)
            unreachable = Unavailable(f"the directory cannot be reached: {type(error).__name__}")
            raise unreachable.telling(NO_ANSWER) from error

    async def _directory_answers(self, ask: Callable[[Handle], Awaitable[Any]]) -> Any:
        """What the directory answers. One that is dead for Ray was stopped and does not come back, but another one may
        have been started since."""
        asked = self.directory
        try:
            return await ask(asked)
        except ActorDiedError as error:
            if self.directory is asked:
                self.directory = await self._successor(asked)
                self._forget_hosts()
            raise Replaced("there is a new directory") from error

    async def _successor(self, dead: Handle) -> Handle:
        with suppress(ValueError):
            found = await asyncio.to_thread(find_directory, self._namespace)
            if found != dead:
                return found
        raise Unavailable("the installation was stopped; join it again")
