"""The keeper: the process that a person starts. It holds the listening socket and keeps a gateway process alive.

A gateway is a client of Ray, and Ray ends its clients when it dies itself. So the gateway is a child of the keeper,
which starts it again with the same socket; requests that come meanwhile wait in the socket's queue. The child dies with
the keeper, even if the keeper is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from types import FrameType

from agency.backoff import Backoff

SOCKET = "AGENCY_KEPT_SOCKET"
LINE = "AGENCY_KEPT_LINE"
"""File descriptors in the environment of a kept gateway: the listening socket, and a pipe on which it reports ready."""

AGAIN = 75
"""The exit code of a gateway that wants to be started again."""

RESTARTS = Backoff(first=0.1, longest=10.0)
"""Before a gateway is started again. One that was ready and died is started again after the first delay."""

FAILED = 1
PR_SET_PDEATHSIG = 1


class Keeper:
    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def run(self) -> int:
        """Keep a gateway alive until it ends on purpose; its exit code. One that fails before any was ready is wrong in
        itself, and its person is there to read why. After that the keeper tries for ever: what is in the way,
        such as a full disk, may pass, and a person may be far away."""
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, self._pass_on)
        failures, served = 0, False
        while not self._is_stopping():
            try:
                code, ready = self._serve()
            except OSError as error:  # no process, memory or descriptor is left for a gateway now
                print(f"cannot start a gateway: {error.strerror}", file=sys.stderr, flush=True)  # noqa: T201
                code, ready = FAILED, False
            served, failures = served or ready, 0 if ready else failures + 1
            if code == 0 or not served:
                return code if code >= 0 else 128 - code
            if not self._is_stopping():
                time.sleep(RESTARTS.delay(failures + 1))
        return 0

    def _is_stopping(self) -> bool:
        return self._stopping  # a method, because a signal handler sets it while `run` runs

    def _serve(self) -> tuple[int, bool]:
        """Run one gateway to its end: its exit code, and whether it ever was ready."""
        heard, told = os.pipe()
        try:
            self._child = self._started(told)
            code = self._child.wait()
            os.set_blocking(heard, False)
            try:
                return code, os.read(heard, 1) != b""
            except BlockingIOError:
                return code, False
        finally:
            os.close(heard)

    def _started(self, told: int) -> subprocess.Popen[bytes]:
        kept = (self._listening.fileno(), told)
        environment = {**os.environ, SOCKET: str(kept[0]), LINE: str(told)}
        command = [sys.executable, *sys.orig_argv[1:]]
        try:
            return subprocess.Popen(command, env=environment, pass_fds=kept, process_group=0)
        finally:
            os.close(told)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        if self._child is not None:
            self._child.send_signal(number)


# In the child.


def is_kept() -> bool:
    return SOCKET in os.environ


class Kept:
    """A kept gateway's side: the listening socket, and the pipe to its keeper."""

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        self.keeper = os.getppid()
        self._line = int(os.environ.pop(LINE))
        kept = int(os.environ.pop(SOCKET))
        for each in (kept, self._line):
            os.set_inheritable(each, False)
        self.listening = socket.socket(fileno=kept)

    def tell_ready(self) -> None:
        os.write(self._line, b"1")
