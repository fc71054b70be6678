"""An agency's shelves: what outlives its threads, as clients reach it and as hosts open it.

`shelves_of` is the one place that says where an installation keeps them. Hosts and Ray tasks use the store directly;
clients go through the agency, because a gateway may be on a machine without the data folder.

Nothing here may hold up the directory, in which the agencies of all tenants live: shelves have a few threads of their
own, apart from those that recovery uses, and an agency that is busy with its shelves leaves some of them to the others.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from actors.address import Address, Files
from actors.agency.context import AgencyContext
from actors.operations import operation
from actors.settings import Settings
from agency.shelves.interface import ShelfEntry, ShelfInfo, ShelfItem, ShelfPage, ShelfStore, Version
from agency.shelves.local import LocalShelves

P = ParamSpec("P")
Value = TypeVar("Value")

THREADS = 8
AT_ONCE = 2
"""Operations of one agency at a time. More would only wait for each other's lock."""

_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="shelves")  # starts a thread when there is work for it


def shelves_of(settings: Settings, agency_id: str) -> ShelfStore:
    """Where the shelves of an agency are."""
    return LocalShelves(Files(settings.data_dir).shelves(Address(agency_id).agency), settings.shelf_bytes)


class AgencyShelves:
    def __init__(self, context: AgencyContext) -> None:
        self._shelves = shelves_of(context.settings, context.id)
        self._turns = asyncio.Semaphore(AT_ONCE)

    @operation
    async def shelves(self) -> list[ShelfInfo]:
        """The shelves that have entries, by name."""
        return await self._do(self._shelves.shelves)

    @operation
    async def shelf_entries(self, shelf: str, prefix: str = "", *, after: str = "", limit: int = 100) -> ShelfPage:
        """The entries of a shelf whose paths begin with a prefix, in the order of their paths."""
        return await self._do(self._shelves.entries, shelf, prefix, after=after, limit=limit)

    @operation
    async def read_shelf(self, shelf: str, path: str) -> ShelfItem:
        """The content and the version of an entry."""
        return await self._do(self._shelves.read, shelf, path)

    @operation
    async def write_shelf(
        self,
        shelf: str,
        path: str,
        content: bytes,
        *,
        if_version: Version | None = None,
        idempotency_key: str | None = None,
    ) -> ShelfEntry:
        """Put an entry under a path. With `if_version`, only if that is its version; else `VersionConflict`."""
        return await self._do(
            self._shelves.write, shelf, path, content, if_version=if_version, key=idempotency_key or ""
        )

    @operation
    async def delete_shelf_entry(self, shelf: str, path: str, *, if_version: Version | None = None) -> None:
        """Remove an entry. With `if_version`, only if that is its version; else `VersionConflict`."""
        await self._do(self._shelves.delete, shelf, path, if_version=if_version)

    async def _do(self, work: Callable[P, Value], *args: P.args, **kwargs: P.kwargs) -> Value:
        async with self._turns:
            call = functools.partial(work, *args, **kwargs)
            return await asyncio.get_running_loop().run_in_executor(_threads, call)
