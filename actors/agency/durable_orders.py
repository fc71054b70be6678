"""Orders of an agency, given once what they follow from is on disk: a thread that is made, deleted or told something
must not be ahead of the file that says why.
"""

from __future__ import annotations

from actors.address import Address
from actors.agency.agency_file import AgencyFile
from actors.agency.creation import Creation
from actors.agency.installation import Installation
from actors.updates import ThreadUpdate
from agency.children.parcels import Report


class DurableOrders:
    """The `Installation` of an agency. Where each commit is on disk at once, nothing here waits."""

    def __init__(self, installation: Installation, file: AgencyFile) -> None:
        self._installation = installation
        self._file = file

    async def create(self, creation: Creation) -> None:
        await self._file.durable()
        await self._installation.create(creation)

    async def end_run(self, address: Address) -> None:
        await self._file.durable()
        await self._installation.end_run(address)

    async def evict(self, address: Address) -> ThreadUpdate | None:
        await self._file.durable()
        return await self._installation.evict(address)

    async def announce(self, agency: str) -> None:
        await self._file.durable()
        await self._installation.announce(agency)

    async def lift(self, address: Address) -> None:
        await self._file.durable()
        await self._installation.lift(address)

    async def report(self, agency: str, report: Report) -> None:
        await self._file.durable()
        await self._installation.report(agency, report)

    # What only has the agency look into its file again, later.

    def lift_soon(self, agency: str) -> None:
        self._installation.lift_soon(agency)

    def ring_at(self, agency: str, due: int | None) -> None:
        self._installation.ring_at(agency, due)

    async def give_way(self, agency: str) -> None:
        await self._installation.give_way(agency)
