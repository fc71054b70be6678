"""Telling a thread that kills its host from one that was only there.

A host's death counts against every thread that was at work in it. A thread that has got further since the last one,
which its events tell, begins anew. One that was only waiting for a model has hardly done it: that counts a quarter.
After a few in a row a thread is kept apart, so that it takes no others with it and no other is to blame; if it then
goes on like that, it is given up.
"""

from __future__ import annotations

from dataclasses import dataclass

from actors.address import Address

WAITING = 0.25


@dataclass(slots=True)
class _Record:
    seq: int
    count: float = 0.0
    alone: bool = False
    """Whether one of them had nobody else in it."""


class Strikes:
    def __init__(self, most: int) -> None:
        self._most = most
        self._records: dict[Address, _Record] = {}

    def count(self, address: Address, seq: int, *, waiting: bool = False, alone: bool = False) -> None:
        """A host has died with this thread at work, or only waiting for a model; `seq` is that of its latest event."""
        record = self._records.get(address)
        if record is None or seq > record.seq:
            record = self._records[address] = _Record(seq)
        record.count += WAITING if waiting else 1.0
        record.alone = record.alone or alone

    def keep_apart(self, address: Address) -> bool:
        return self._of(address) >= max(2, self._most - 2)

    def out(self, address: Address) -> bool:
        record = self._records.get(address)
        return record is not None and record.alone and record.count >= self._most

    def forgive(self, address: Address) -> None:
        self._records.pop(address, None)

    def _of(self, address: Address) -> float:
        record = self._records.get(address)
        return record.count if record is not None else 0.0
