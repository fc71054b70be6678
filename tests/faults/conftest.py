"""What the fault tests with real processes share: a Ray of their own, which they may kill."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import ray

from actors import Settings
from actors.cluster import local_ray

ROOT = Path(__file__).parents[2]


@pytest.fixture
def own_ray(tmp_path: Path) -> Iterator[Settings]:
    """Settings of an installation with a local Ray to itself."""
    ray.shutdown()
    settings = Settings(
        system="tests.actors.shop:system",
        python_path=(str(ROOT),),
        data_dir=tmp_path / "data",
        namespace="faults",
        warm_hosts=1,
        actors_per_node=4,
        hibernate_after=60,
    )
    yield settings
    ray.shutdown()
    local_ray.stop(settings.data_dir)


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
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
