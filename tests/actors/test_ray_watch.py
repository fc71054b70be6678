"""Watching the local Ray: it has ended only if that is seen, and a process that can see nothing waits."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors.cluster import local_ray
from actors.cluster.ray_watch import MISSES, RayWatch
from agency.errors import Unavailable


@contextmanager
def no_descriptors() -> Iterator[None]:
    """In this process nothing more can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """In the place of a Ray."""
    with socket.create_server(("127.0.0.1", 0)) as opened:
        yield opened


@pytest.fixture
def address(listening: socket.socket) -> str:
    return f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def note(tmp_path: Path, address: str) -> Path:
    (tmp_path / "ray").mkdir()
    path = tmp_path / "ray" / "ray.json"
    noted = local_ray.LocalRay(address=address, pid=os.getsid(0), token="", temp_dir=str(tmp_path / "no"), mark="")
    path.write_text(noted.model_dump_json())
    return path


def test_a_ray_that_refuses_and_was_not_stopped_has_died(
    tmp_path: Path, note: Path, address: str, listening: socket.socket
) -> None:
    watch = RayWatch(tmp_path, address)
    assert watch.look() == "runs"
    listening.close()
    assert watch.look() == "died"


def test_only_a_note_that_is_missing_time_after_time_means_stopped(
    tmp_path: Path, note: Path, address: str, listening: socket.socket
) -> None:
    watch = RayWatch(tmp_path, address)
    note.unlink()
    assert watch.look() == "runs"  # whatever has become of its note
    listening.close()
    assert [watch.look() for _ in range(MISSES - 1)] == ["unknown"] * (MISSES - 1)
    with no_descriptors():
        assert watch.look() == "unknown"
    assert [watch.look() for _ in range(MISSES)] == ["unknown"] * (MISSES - 1) + ["stopped"]


def test_a_process_that_can_open_nothing_takes_nothing_for_ended(tmp_path: Path, note: Path, address: str) -> None:
    watch = RayWatch(tmp_path, address)
    with no_descriptors():
        assert {watch.look() for _ in range(2 * MISSES)} == {"unknown"}
        for look in (lambda: local_ray.listens(address), lambda: local_ray.find(tmp_path)):
            with pytest.raises(Unavailable, match="Too many open files"):
                look()
    assert watch.look() == "runs"


async def test_how_it_has_ended_is_told(tmp_path: Path, note: Path, address: str, listening: socket.socket) -> None:
    listening.close()
    assert await RayWatch(tmp_path, address).end() == "died"
    note.unlink()
    assert await RayWatch(tmp_path, address).end() == "stopped"
