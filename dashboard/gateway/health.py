"""Whether a thread could run now, for callers who are not known and may ask as often as they like.

What the installation has said counts for half a second, and requests that come meanwhile share one question.
"""

from __future__ import annotations

import asyncio
import time

from actors import Cluster, Readiness

GOOD_SECONDS = 0.5


class HealthCheck:
    def __init__(self) -> None:
        self._asking: asyncio.Task[Readiness] | None = None
        self._found: tuple[Cluster, Readiness, float] | None = None

    async def of(self, cluster: Cluster) -> Readiness:
        if self._found is not None:
            asked, found, at = self._found
            if asked is cluster and time.monotonic() - at < GOOD_SECONDS:
                return found
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(cluster))
        return await asyncio.shield(self._asking)

    async def _ask(self, cluster: Cluster) -> Readiness:
        try:
            found = await cluster.ready()
        finally:
            self._asking = None
        self._found = (cluster, found, time.monotonic())
        return found
