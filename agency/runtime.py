"""What a thread needs from where it runs. The library's own is `agency.local`; the actors on Ray are another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from agency.blueprint import Blueprint
from agency.parcels import Cancel, Report, Spawn


class Runtime(Protocol):
    def agents(self) -> Mapping[str, Blueprint]:
        """The agents that can be started here, by name."""

    async def deliver(self, parcel: Spawn | Report | Cancel) -> None:
        """Hand a parcel to its addressee. Returns once the addressee has it on disk; raises to be tried again."""
