"""Whether the data folder can be written, found out by writing.

Asked for every readiness check, so one answer counts for a while, and all who ask meanwhile share it. A disk that hangs
keeps one OS thread waiting, however often it is asked, and is told as such in time.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from pathlib import Path

from actors.address import Files
from agency.thread.workers import in_worker_thread

GOOD_SECONDS = 2.0
ANSWER_SECONDS = 1.0
PROBE = ".writable"
PROBE_BYTES = 64 * 1024
LEAST_FREE_BYTES = 4 * 1024 * 1024
"""A thread's file begins with a hundred kilobytes, and its log grows by up to four megabytes."""

_WORDS = {
    errno.ENOSPC: "no space is left",
    errno.EDQUOT: "no space is left",
    errno.EROFS: "it is read-only",
    errno.EACCES: "there is no permission to",
    errno.EPERM: "there is no permission to",
    errno.EIO: "the disk fails",
}


class Disk:
    def __init__(self, files: Files) -> None:
        self._folder = files.data_dir / "agencies"
        self._probing: asyncio.Task[None] | None = None
        self._found, self._found_at = "", -GOOD_SECONDS

    async def problem(self) -> str:
        """Why the data folder cannot be written now; empty if it can."""
        if time.monotonic() - self._found_at >= GOOD_SECONDS and self._probing is None:
            self._probing = asyncio.create_task(self._probe())
        if (probing := self._probing) is not None:
            done, _ = await asyncio.wait({probing}, timeout=ANSWER_SECONDS)
            if not done:
                return "the data folder cannot be written: the disk does not answer"
        return self._found

    async def _probe(self) -> None:
        self._found = await in_worker_thread(lambda: write_problem(self._folder))
        self._found_at, self._probing = time.monotonic(), None


def write_problem(folder: Path) -> str:
    """Write and sync a small file below a folder, and delete it. Returns why that cannot be done."""
    probe = folder / PROBE
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with probe.open("wb") as file:
                file.write(bytes(PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
            room = os.statvfs(folder)
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        number = error.errno or 0
        return f"the data folder cannot be written: {_WORDS.get(number) or os.strerror(number)}"
    if room.f_bavail * room.f_frsize < LEAST_FREE_BYTES:
        return "the data folder cannot be written: no space is left"
    return ""
