"""Telling a thread that kills its host from one that was only in the same host.

A host's death counts against every thread that was at work in it. The count of a thread begins anew once it has
committed an event since the last death, because then it gets further; those that only tell of its recovery do not
count. A thread that was only waiting for a model is
hardly the cause: that counts a quarter.

After a few deaths in a row a thread gets a host to itself. That protects the others, and makes the next death prove
something: a thread is poison only if at least one of its deaths happened while it was alone, so a thread that merely
shares a host with the guilty one is never given up.
"""

from __future__ import annotations

from dataclasses import dataclass

from actors.address import Address

WAITING = 0.25


@dataclass(slots=True)
class _CrashRecord:
    seq: int
    count: float = 0.0
    alone: bool = False
    """Whether in one of them no other thread was in the host."""


class CrashCounts:
    def __init__(self, most: int) -> None:
        self._most = most
        self._records: dict[Address, _CrashRecord] = {}

    def count(self, address: Address, seq: int, *, waiting: bool = False, alone: bool = False) -> None:
        """A host has died with this thread at work, or only waiting for a model; `seq` is that of the latest event that
        tells how far it has got: that it was taken up again is none."""
        record = self._records.get(address)
        if record is None or seq > record.seq:
            record = self._records[address] = _CrashRecord(seq)
        record.count += WAITING if waiting else 1.0
        record.alone = record.alone or alone

    def needs_own_host(self, address: Address) -> bool:
        record = self._records.get(address)
        return record is not None and record.count >= max(2, self._most - 2)

    def is_poison(self, address: Address) -> bool:
        record = self._records.get(address)
        return record is not None and record.alone and record.count >= self._most

    def forget(self, address: Address) -> None:
        self._records.pop(address, None)
