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
    {before}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sys.exit(keeper.Keeper(listening).run())
kept = keeper.Kept()
print(os.getpid(), kept.listening.getsockname()[1], flush=True)
{then}
"""


def started(folder: Path, then: str, before: str = "pass") -> subprocess.Popen[str]:
    (folder / "kept.py").write_text(PROGRAM.format(then=then, before=before))
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


def ended(keeper: subprocess.Popen[str]) -> int:
    """The exit code of one that has to end by itself; one that does not is ended here."""
    try:
        return keeper.wait(60)
    finally:
        keeper.kill()


SOON = "from agency.backoff import Backoff; keeper.RESTARTS = Backoff(first=0.01, longest=0.01)"
"""Before a gateway is started again, in a test that starts many."""

SERVES_AT_LAST = """
import pathlib
starts = pathlib.Path(__file__).with_name("starts")
with starts.open("a") as file:
    file.write("x")
if 1 < starts.stat().st_size < 14:
    sys.exit(1)
kept.tell_ready()
if starts.stat().st_size == 1:
    os._exit(1)
"""


def test_once_one_has_served_it_is_started_until_one_serves_again(tmp_path: Path) -> None:
    """A full disk, for one, may keep it from starting for longer than people watch."""
    with started(tmp_path, SERVES_AT_LAST, SOON) as keeper:
        assert ended(keeper) == 0
        assert (tmp_path / "starts").read_text() == "x" * 14


BLIND = """
import resource
serve, limits, tries = keeper.Keeper._serve, resource.getrlimit(resource.RLIMIT_NOFILE), []
def blind(self):
    tries.append(None)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free if 1 < len(tries) < 6 else limits[0], limits[1]))
    return serve(self)
keeper.Keeper._serve = blind
"""


def test_it_outlives_that_nothing_can_be_opened(tmp_path: Path) -> None:
    then = "kept.tell_ready()\n" + SERVES_AT_LAST.partition("kept.tell_ready()")[0].replace("< 14", "< 2")
    before = "\n    ".join([SOON, *BLIND.strip().splitlines()])
    with started(tmp_path, f"{then}\nif starts.stat().st_size == 1: os._exit(1)", before) as keeper:
        assert ended(keeper) == 0
        assert (tmp_path / "starts").read_text() == "xx"  # between them, it could not start one


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
