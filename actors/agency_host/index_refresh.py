"""Bringing an agency's index up to date before it is read.

Hosts send updates in batches, up to a second late. An operation that answers from the index first has the hosts of the
agency's threads hand over the updates that they have not sent yet. So a caller finds everything that happened before
its call: a client that was told of a run's end finds the run ended in the listing.
"""

from __future__ import annotations

import asyncio

from ray.exceptions import RayError

from actors.agency_host.index_writer import IndexWriter
from actors.caller import Caller
from actors.updates import ThreadUpdate
from agency.errors import AgencyError

HOST_SECONDS = 1.0
"""A host that does not answer in time is left out: it sends its updates when it can, or its files tell."""


class IndexRefresh:
    def __init__(self, caller: Caller, index: IndexWriter) -> None:
        self._caller = caller
        self._index = index
        self._refreshing: dict[str, asyncio.Task[None]] = {}

    async def refresh(self, agency: str) -> None:
        """A refresh that has begun before this call may miss what happened since, so it is waited for and not shared.
        All callers that come meanwhile share the next one."""
        if (earlier := self._refreshing.get(agency)) is not None:
            await asyncio.wait({earlier})
        if (task := self._refreshing.get(agency)) is None:
            task = self._refreshing[agency] = asyncio.create_task(self._refresh(agency))
            task.add_done_callback(lambda _: self._refreshing.pop(agency))
        await asyncio.shield(task)

    async def _refresh(self, agency: str) -> None:
        try:
            hosts = await self._caller.ask_directory("hosts_of", agency)
        except AgencyError:
            return  # it is being started again, and what it does not know now, no host could be asked for
        handed_over = await asyncio.gather(*(self._unconfirmed(host, agency) for host in hosts))
        if updates := [update for some in handed_over for update in some]:
            await self._index.write(updates)

    async def _unconfirmed(self, name: str, agency: str) -> list[ThreadUpdate]:
        try:
            host = await self._caller.host_named(name)
            async with asyncio.timeout(HOST_SECONDS):
                return list(await host.unconfirmed.remote(agency))
        except (RayError, TimeoutError):
            return []
