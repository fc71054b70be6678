"""What a gateway serves at once, and shares of it: no agency has all of it, whatever its keys ask for.

Requests may wait for minutes and live connections stay for days, so their number is limited, and without shares the
holder of one key could have all the places there are. The owner has no share: who has the secret may stop everything.
"""

from __future__ import annotations

from collections import Counter

import structlog

from actors.file_limit import file_limit
from agency.errors import RateLimited
from dashboard.gateway.settings import GatewaySettings

log = structlog.get_logger(__name__)

OF_ALL = 3 / 4
"""What the keys of one agency hold at most."""

RESERVE = 128
"""Descriptors that are left for the rest of the process; Ray's client alone has some fifty. More if there are many."""

LEAST = 8


def most_connections(settings: GatewaySettings) -> int:
    """How many connections a gateway serves at once. The limit of open files comes first, whatever is wished for."""
    limit = file_limit()
    possible = max(LEAST, limit - max(RESERVE, limit // 4))
    wanted = settings.connections or possible
    if wanted > possible:
        log.warning(f"the limit of open files, {limit}, allows {possible} connections, and not {wanted}")
    return min(wanted, possible)


class Shares:
    def __init__(self, most: int, what: str) -> None:
        self._each = max(1, int(most * OF_ALL))
        self._what = what
        self._held: Counter[str] = Counter()

    def take(self, agency: str | None) -> None:
        """Take a place for a key of an agency, or for the owner."""
        if agency is None:
            return
        if self._held[agency] >= self._each:
            raise RateLimited(f"the keys of this agency have {self._each} {self._what}, and others need the rest")
        self._held[agency] += 1

    def give_back(self, agency: str | None) -> None:
        if agency is None:
            return
        self._held[agency] -= 1
        if not self._held[agency]:
            del self._held[agency]
