"""Where the threads are that are awake, also by agency: what an agency has awake is asked for often."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from actors.address import Address
from actors.caller import Location


class Locations:
    def __init__(self) -> None:
        self._of: dict[Address, Location] = {}
        self._hosts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    @property
    def all(self) -> Mapping[Address, Location]:
        return self._of

    def get(self, address: Address) -> Location | None:
        return self._of.get(address)

    def hosts_of(self, agency: str) -> list[str]:
        """The hosts that have threads of an agency."""
        return list(self._hosts.get(agency, ()))

    def put(self, address: Address, location: Location) -> None:
        known = self._of.get(address)
        if known is None or known.host != location.host:
            self.drop(address)
            self._hosts[address.agency][location.host] += 1
        self._of[address] = location

    def drop(self, address: Address) -> None:
        if (known := self._of.pop(address, None)) is None:
            return
        hosts = self._hosts[address.agency]
        hosts[known.host] -= 1
        if not hosts[known.host]:
            del hosts[known.host]
        if not hosts:
            del self._hosts[address.agency]
