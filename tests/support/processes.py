"""The processes of an installation, which fault tests look for and kill."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from actors import Settings
from actors.cluster import local_ray


def kill(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def titled(title: str, session: int) -> list[int]:
    """The processes of a session that call themselves so."""
    found = []
    for pid in local_ray.session(session):
        with suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(title.encode()):
                found.append(pid)
    return found


def lives(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def session_of(settings: Settings) -> int:
    """The session of the local Ray that serves these settings."""
    found = local_ray.find(settings.data_dir)
    assert found is not None
    return found.pid
