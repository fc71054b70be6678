"""Watching the local Ray from a process that needs it: whether it runs, has died, or was stopped on purpose.

The one idea: what cannot be seen has not ended. A process without a free descriptor sees no server and no note, so only
a refused connection means that Ray has died, and only a note that is really missing, look after look, that it was
stopped: `local_ray.stop` takes the note away.
"""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Literal

from actors.cluster import local_ray
from agency.errors import Unavailable

LOOK_SECONDS = 0.5
CONNECT_SECONDS = 2.0
MISSES = 3
"""Looks in a row that must find no note, before the local Ray counts as stopped."""

Found = Literal["runs", "died", "stopped", "unknown"]


class RayWatch:
    """Looks at one local Ray."""

    def __init__(self, data_dir: Path, address: str) -> None:
        self._data_dir = data_dir
        self._address = address
        self._missed = 0

    async def end(self) -> Literal["died", "stopped"]:
        """Return when it has ended: how."""
        while True:
            found = await asyncio.to_thread(self.look)
            if found in ("died", "stopped"):
                return found
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> Found:
        try:
            refused = _refuses(self._address)
            noted = not refused or local_ray.was_started(self._data_dir)
        except (OSError, Unavailable):
            self._missed = 0
            return "unknown"
        if noted:
            self._missed = 0
            return "died" if refused else "runs"
        self._missed += 1
        return "stopped" if self._missed >= MISSES else "unknown"


def _refuses(address: str) -> bool:
    """Whether no server listens any more. Every other failure, a timeout among them, is raised: it proves nothing."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except (ConnectionRefusedError, ConnectionResetError):
        return True
    return False
