"""The raylet that this process works for. A worker's parent is another process where workers are forked."""

from __future__ import annotations

import os

import psutil


def raylet() -> psutil.Process:
    """To be asked while it runs: from then on it is told from another process that has its number."""
    return psutil.Process(int(os.environ.get("RAY_RAYLET_PID") or os.getppid()))


def has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
