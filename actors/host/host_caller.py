"""Calls that threads of a host make: to a thread in the same host directly, to all others through a `Caller`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from ray.exceptions import RayError

from actors.address import Address
from actors.answers import NotHere, Refusal, unwrap
from actors.caller import Caller, find_directory
from actors.updates import ThreadUpdate

CallHere = Callable[[Address, str, tuple[Any, ...], Mapping[str, Any]], Awaitable[Any | NotHere | Refusal]]
"""The host's own `call`."""


class HostCaller:
    def __init__(self, call_here: CallHere, namespace: str) -> None:
        self._call_here = call_here
        self._namespace = namespace
        self._remote: Caller | None = None

    @property
    def remote(self) -> Caller:
        """Made at the first use: while a host is constructed, the directory need not be there."""
        if self._remote is None:
            self._remote = Caller(find_directory(self._namespace), self._namespace)
        return self._remote

    async def call(self, address: Address, method: str, *args: object) -> Any:
        answered = await self._call_here(address, method, args, {})
        if isinstance(answered, NotHere):
            return await self.remote.call(address, method, args)
        return unwrap(answered)

    async def released(
        self, address: Address, activation: int, wake_at: int | None, unconfirmed: ThreadUpdate | None
    ) -> None:
        """Tell the directory that a thread has left this host. If the directory is dead, its successor asks the hosts
        which threads they have and looks into the files of the others, so nothing is lost with this message."""
        with suppress(RayError):
            await self.remote.directory.released.remote(address, activation, wake_at, unconfirmed)
