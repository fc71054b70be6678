"""What an agency needs from the rest of the installation. The directory's `AgencyServices` is the real one."""

from __future__ import annotations

from typing import Protocol

from actors.address import Address
from actors.agency.creation import Creation
from actors.updates import ThreadUpdate
from agency.children.parcels import Report


class Installation(Protocol):
    async def create(self, creation: Creation) -> None:
        """Make a thread, if it is not there yet, and begin its first run."""

    async def end_run(self, address: Address) -> None:
        """Have the run of a thread that is being deleted end, if a host holds the thread."""

    async def evict(self, address: Address) -> ThreadUpdate | None:
        """Have the host that holds a thread close it. Returns how far it had got, if a host held it."""

    async def announce(self, agency: str) -> None:
        """Tell all hosts that the terms of this agency have changed."""

    def lift_soon(self, agency: str) -> None:
        """Have the agency's `lift` called, in the background."""

    async def lift(self, address: Address) -> None:
        """Tell a thread that there is more to spend."""

    async def report(self, agency: str, report: Report) -> None:
        """Hand a report to a thread of this agency."""

    def ring_at(self, agency: str, due: int | None) -> None:
        """Have the agency's `run_due` called then, and not before; None is never."""

    async def give_way(self, agency: str) -> None:
        """Let other agencies have their turns, before this one goes on with something long."""
