"""Bodies that are under way: how many bytes of them a gateway holds at once, and whose they are.

A body stays in memory until its request is answered, and many large ones at once are more than the process has. So
their bytes are counted as they come; what a request announces counts for nothing. The keys of one agency have a share,
and so have callers who are not known, such as webhooks; the owner has none.
"""

from __future__ import annotations

from collections import Counter

from agency.errors import RateLimited, Unavailable
from dashboard.gateway.settings import GatewaySettings
from dashboard.gateway.shares import OF_ALL
from dashboard.gateway.visit import Visit

LARGEST_AT_ONCE = 16
"""Unless it is set, so many of the largest bodies are held at once."""


class Intake:
    def __init__(self, settings: GatewaySettings) -> None:
        self._most = settings.bodies_bytes or LARGEST_AT_ONCE * settings.body_bytes
        self._share = max(settings.body_bytes, int(self._most * OF_ALL))
        self._held = 0
        self._of: Counter[str] = Counter()

    def take(self, visit: Visit, length: int) -> None:
        """Hold so much more for a request, until its visit ends. Refused, nothing more is held."""
        if not length:
            return
        if self._held + length > self._most:
            raise Unavailable(
                f"the bodies of other requests take all {self._most} bytes that there are for them "
                "(AGENCY_BODIES_BYTES); try again in a moment"
            )
        whose = visit.whose
        if whose is not None and self._of[whose] + length > self._share:
            raise RateLimited(f"the bodies of these requests take {self._share} bytes, and others need the rest")
        self._count(whose, length)
        visit.ends.append(lambda: self._count(whose, -length))

    def _count(self, whose: str | None, more: int) -> None:
        self._held += more
        if whose is not None:
            self._of[whose] += more
            if not self._of[whose]:
                del self._of[whose]
