"""The keeper of a gateway: starts it again with the same socket, and ends when it is told to, whatever it is doing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.processes import lives
from tests.support.waiting import eventually_sync

PROGRAM = """
import os, socket, sys
from dashboard.gateway import keeper

if not keeper.is_kept():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sys.exit(keeper.Keeper(listening).run())
kept = keeper.Kept()
print(os.getpid(), kept.listening.getsockname()[1], flush=True)
{then}
"""


def started(folder: Path, then: str) -> subprocess.Popen[str]:
    (folder / "kept.py").write_text(PROGRAM.format(then=then))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, str(folder / "kept.py")], env=environment, stdout=subprocess.PIPE, text=True
    )


def said(keeper: subprocess.Popen[str]) -> tuple[int, int]:
    assert keeper.stdout is not None
    pid, port = keeper.stdout.readline().split()
    return int(pid), int(port)


@pytest.mark.parametrize("how", ["os._exit(75)", "os._exit(1)", "os.abort()"])
def test_one_that_was_ready_and_dies_is_started_again_with_the_same_socket(tmp_path: Path, how: str) -> None:
    with started(tmp_path, f"kept.tell_ready()\n{how}") as keeper:
        found = [said(keeper) for _ in range(3)]
        assert len({pid for pid, _ in found}) == 3
        assert len({port for _, port in found}) == 1
        keeper.send_signal(signal.SIGTERM)  # between two of them, most likely
        assert keeper.wait(20) is not None


def test_one_that_never_gets_ready_is_not(tmp_path: Path) -> None:
    with started(tmp_path, "sys.exit(1)") as keeper:
        said(keeper)
        assert keeper.wait(20) == 1
        assert keeper.stdout is not None
        assert keeper.stdout.read() == ""


def test_one_that_ends_on_purpose_is_not(tmp_path: Path) -> None:
    with started(tmp_path, "kept.tell_ready()") as keeper:
        said(keeper)
        assert keeper.wait(20) == 0


@pytest.mark.kills
def test_it_takes_its_gateway_with_it_even_if_killed(tmp_path: Path) -> None:
    with started(tmp_path, "import time\nkept.tell_ready()\ntime.sleep(60)") as keeper:
        pid, port = said(keeper)
        keeper.kill()
        keeper.wait(20)
        assert keeper.stdout is not None
        assert keeper.stdout.read() == ""  # its end of the pipe is closed, too: it is gone
    with socket.create_server(("127.0.0.1", port)):
        pass
    eventually_sync(lambda: not lives(pid))
