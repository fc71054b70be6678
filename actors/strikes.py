"""Telling a thread that kills its host from one that was only there.

A host's death counts against every thread that was at work in it. A thread that has got further since the last one,
which its events tell, begins anew. One that was only waiting for a model has hardly done it: that counts a quarter.
After two in a row a thread is kept apart, so that it takes no others with it and no other is to blame; after a few it
is given up.
"""

from __future__ import annotations

from dataclasses import dataclass

from actors.address import Address

APART_AFTER = 2
WAITING = 0.25


@dataclass(slots=True)
class _Record:
    seq: int
    count: float = 0.0


class Strikes:
    def __init__(self, most: int) -> None:
        self._most = most
        self._records: dict[Address, _Record] = {}

    def count(self, address: Address, seq: int, *, waiting: bool = False) -> None:
        """A host has died with this thread at work, or only waiting for a model; `seq` is that of its latest event."""
        record = self._records.get(address)
        if record is None or seq > record.seq:
            record = self._records[address] = _Record(seq)
        record.count += WAITING if waiting else 1.0

    def keep_apart(self, address: Address) -> bool:
        return self._of(address) >= APART_AFTER

    def out(self, address: Address) -> bool:
        return self._of(address) >= self._most

    def forgive(self, address: Address) -> None:
        self._records.pop(address, None)

    def _of(self, address: Address) -> float:
        record = self._records.get(address)
        return record.count if record is not None else 0.0
