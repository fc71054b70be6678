"""Servers on loopback that do nothing but listen, as another user's or as a program of one's own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534
"""A user who is not the one that runs the tests."""

only_as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what belongs to another user")

_LISTEN = """
import os, socket, sys
uid, host, port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
if uid != os.geteuid():
    os.setuid(uid)
server = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""


@contextmanager
def listener(uid: int, *said: str, host: str = "127.0.0.1", port: int = 0) -> Iterator[int]:
    """A process of a user's that listens; gives the port. What it is said stands in its arguments."""
    command = [sys.executable, "-c", _LISTEN, str(uid), host, str(port), *said]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def was_called(server: socket.socket) -> bool:
    """Whether a server that accepts nothing has been connected to."""
    server.settimeout(0)
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def noted_ray(folder: Path, address: str) -> Path:
    """A note of a Ray's address as Ray makes it: below a folder that everybody can write."""
    below = folder / "ray"
    below.mkdir(exist_ok=True)
    below.chmod(0o777)
    note = below / "ray_current_cluster"
    note.write_text(address)
    return note
