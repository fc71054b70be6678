"""Tickets: a short-lived, single-use stand-in for a key, for those who can send none, such as a browser's WebSocket.

They are in memory only and known by their digest. When the directory dies, clients have to ask for new ones. A holder
that asks for ever more of them loses its own oldest ones, and an agency with many such holders loses its own: those of
others stay.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

MOST = 10_000
"""Tickets that are held at once. Beyond that the oldest of the agency that has the most goes."""

EACH = 500
"""Of one holder. Beyond that its oldest goes."""

Holder = tuple[str, str]
"""An agency, empty for the owner, and in it a key or a client."""


@dataclass(frozen=True, slots=True)
class _IssuedTicket:
    grant: str
    until: float
    holder: Holder


class Tickets:
    def __init__(self, most: int = MOST, each: int = EACH) -> None:
        self._most = most
        self._each = each
        self._held: dict[str, _IssuedTicket] = {}
        self._of: dict[Holder, dict[str, None]] = {}
        self._in: Counter[str] = Counter()

    def add(self, digest: str, grant: str, seconds: float, holder: Holder = ("", "")) -> None:
        now = time.monotonic()
        self._remove(digest)
        self._held[digest] = _IssuedTicket(grant, now + seconds, holder)
        self._of.setdefault(holder, {})[digest] = None
        self._in[holder[0]] += 1
        while self._held and self._held[first := next(iter(self._held))].until <= now:
            self._remove(first)
        if len(self._of.get(holder, ())) > self._each:
            self._remove(next(iter(self._of[holder])))
        if len(self._held) > self._most:
            self._remove(self._oldest_of(self._in.most_common(1)[0][0]))

    def take(self, digest: str) -> str | None:
        """What a ticket grants, once."""
        ticket = self._remove(digest)
        return ticket.grant if ticket is not None and ticket.until > time.monotonic() else None

    def _oldest_of(self, agency: str) -> str:
        return next(digest for digest, ticket in self._held.items() if ticket.holder[0] == agency)

    def _remove(self, digest: str) -> _IssuedTicket | None:
        ticket = self._held.pop(digest, None)
        if ticket is None:
            return None
        theirs = self._of[ticket.holder]
        del theirs[digest]
        if not theirs:
            del self._of[ticket.holder]
        self._in[ticket.holder[0]] -= 1
        if not self._in[ticket.holder[0]]:
            del self._in[ticket.holder[0]]
        return ticket
