"""Tickets: a short-lived, single-use stand-in for a key, for those who can send none, such as a browser's WebSocket.

They are in memory only and known by their digest. When the directory dies, clients have to ask for new ones.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

MOST = 10_000
"""Tickets that are held at once. Beyond that the oldest go."""


@dataclass(frozen=True, slots=True)
class _IssuedTicket:
    grant: str
    until: float


class Tickets:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._held: dict[str, _IssuedTicket] = {}

    def add(self, digest: str, grant: str, seconds: float) -> None:
        now = time.monotonic()
        self._held.pop(digest, None)
        self._held[digest] = _IssuedTicket(grant, now + seconds)
        while self._held and (len(self._held) > self._most or next(iter(self._held.values())).until <= now):
            del self._held[next(iter(self._held))]

    def take(self, digest: str) -> str | None:
        """What a ticket grants, once."""
        ticket = self._held.pop(digest, None)
        return ticket.grant if ticket is not None and ticket.until > time.monotonic() else None
