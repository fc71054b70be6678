"""Where a directory is in its life: waiting for the data folder, refused, started, stopping.

A data folder belongs to one directory at a time. Two of them, of two namespaces or clusters, would wake the same
threads and write the same agencies' files. The lock on the folder is the operating system's: it ends with the process
that holds it, also by `kill -9`, so a directory that died never has to be cleaned up after.
"""

from __future__ import annotations

import asyncio

from filelock import FileLock, Timeout

from actors.address import Files
from actors.answers import Refusal
from actors.settings import Settings
from agency.errors import Unavailable, WrongState

LOCK_SECONDS = 5.0
"""How long a directory waits for the lock: the process before it may not be quite gone."""

LOCK_POLL_SECONDS = 0.1
STOPPING = "the installation is being stopped"


class Lifecycle:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = FileLock(settings.data_dir / "directory.lock", thread_local=False)
        self.refused: Refusal | None = None
        self.decided = asyncio.Event()
        """Whether the data folder is ours, or was refused."""
        self.started = asyncio.Event()
        """All hosts that were there have been adopted, so it is safe to wake threads: none is awake unknown to us."""
        self.stopping = False

    async def take_folder(self) -> bool:
        """Lock the data folder; False if another directory has it."""
        Files(self._settings.data_dir).prepare()
        try:
            await asyncio.to_thread(self._lock.acquire, timeout=LOCK_SECONDS, poll_interval=LOCK_POLL_SECONDS)
        except Timeout:
            message = f"another installation uses {self._settings.data_dir}: stop it first, or use another folder"
            self.refused = Refusal(WrongState.code, message)
        self.decided.set()
        return self.refused is None

    def check_not_stopping(self) -> None:
        if self.stopping:
            raise Unavailable(STOPPING)
