"""Bringing an agency's index up to date before it is read.

Hosts send updates in batches, up to a second late. An operation that answers from the index first has the hosts of the
agency's threads hand over the updates that they have not sent yet. So a caller finds everything that happened before
its call: a client that was told of a run's end finds the run ended in the listing.
"""

from __future__ import annotations

import asyncio

from ray.exceptions import RayError

from actors.directory.activations import Activations
from actors.directory.index_writer import IndexWriter
from actors.updates import ThreadUpdate

HOST_SECONDS = 1.0
"""A host that does not answer in time is left out: it sends its updates when it can, or its files tell."""


class IndexRefresh:
    def __init__(self, activations: Activations, index: IndexWriter) -> None:
        self._activations = activations
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
        locations = self._activations.locations.items()
        hosts = {location.host for address, location in locations if address.agency == agency}
        handed_over = await asyncio.gather(*(self._unconfirmed(host, agency) for host in hosts))
        if updates := [update for some in handed_over for update in some]:
            await self._index.write(updates)

    async def _unconfirmed(self, host: str, agency: str) -> list[ThreadUpdate]:
        entry = self._activations.fleet.get(host)
        if entry is None or not entry.answers:
            return []
        try:
            async with asyncio.timeout(HOST_SECONDS):
                return list(await entry.handle.unconfirmed.remote(agency))
        except (RayError, TimeoutError):
            return []
