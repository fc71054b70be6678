"""A program that has imported what the processes of an installation need, and becomes them by forking. So a worker of
a local Ray starts in a few hundredths of a second, and what was imported is in memory once.

What must not be in this process, because each worker would have the same: threads, connections, open databases, and
random numbers that Ray has drawn. Ray draws them when a class is made an actor class, or a function a Ray task, so
nothing that is imported here does that while it is imported. Agents' code is imported in the workers alone.

Ray reads for which job and raylet a worker is when it is loaded. So this process loads it when it is told the raylet,
and is for one job: the first, and when that has no worker any more, another. And it is for the modules that are on
disk: it begins anew if one has changed. Meanwhile, and for other jobs, workers start as Ray starts them.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib
import marshal
import os
import runpy
import signal
import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

AHEAD = ("agency", "middleware")
"""What can be imported without Ray, while that starts."""

PRELOADED = (
    "ray._private.workers.default_worker",
    "actors.directory.directory",
    "actors.agency_host.agency_host",
    "actors.host.host",
)
"""With all that they import."""

OURS = ("actors", "agency", "middleware")
"""Packages of which a change on disk is noticed."""

JOB, RAYLET = b"RAY_JOB_ID", b"RAY_RAYLET_PID"
"""What Ray tells workers by variables that it reads when it is loaded."""

TITLE = "ray::ForkServer"
YES, NO = b"1", b"0"
REQUEST_SECONDS = 5.0
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """A worker as the raylet would start it."""

    connection: socket.socket
    """To the program that the raylet has started, which the worker tells when the raylet knows the worker itself."""
    command: list[str]
    """Its program and arguments."""
    environment: dict[bytes, bytes]
    folder: bytes
    streams: list[int]


def serve(listening: socket.socket) -> None:
    """Serve until the parent dies. In each process that it makes, this returns when the worker has ended."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended workers leave no zombies
    _import(AHEAD)
    if RAYLET not in os.environb:
        os.environb[RAYLET] = sys.stdin.buffer.readline().strip()
    _import(PRELOADED)
    _set_title(f"{TITLE} {listening.getsockname()}")
    stamps = _stamps()
    gc.collect()
    gc.disable()
    gc.freeze()  # or the first collection of each worker would copy what is shared
    while (made := _forked(listening, stamps)) is None:
        pass
    _become(made)
    _tell_when_connected(made.connection)
    runpy.run_path(made.command[0], run_name="__main__")


def _set_title(title: str) -> None:
    """It moves the environment in memory, so this comes before the environment changes."""
    from ray._raylet import setproctitle  # type: ignore[attr-defined]  # Ray's

    setproctitle(title)


def _import(names: Iterable[str]) -> None:
    for name in names:
        importlib.import_module(name)


def _forked(listening: socket.socket, stamps: dict[str, int]) -> Wanted | None:
    """Serve one request: in the worker, what it is to be."""
    connection, _ = listening.accept()
    connection.settimeout(REQUEST_SECONDS)
    with suppress(OSError, EOFError, ValueError):
        wanted = _received(connection)
        changed, other = _stamps() != stamps, wanted.environment.get(JOB) != os.environb.get(JOB)
        fits = not changed and not other
        try:
            if fits and os.fork() == 0:
                listening.close()
                return wanted
        except OSError:  # no process or memory is left
            fits = False
        for each in wanted.streams:
            os.close(each)
        if not fits:
            connection.sendall(NO)
        if changed or (other and not _has_workers()):
            _begin_anew(listening, {name: wanted.environment[name] for name in (JOB, RAYLET)})
    connection.close()
    return None


def _has_workers() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def _received(connection: socket.socket) -> Wanted:
    size = struct.calcsize("!I")
    told, streams, _, _ = socket.recv_fds(connection, 65_536, 3)
    while len(told) < size or len(told) < size + struct.unpack_from("!I", told)[0]:
        more = connection.recv(65_536)
        if not more:
            raise EOFError
        told += more
    command, environment, folder = marshal.loads(told[size:])
    return Wanted(connection, command, environment, folder, streams)


def _become(wanted: Wanted) -> None:
    """Take on all in which a new process would differ from this one."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0)
    os.setpgid(0, 0)  # whatever is left of a worker's group when it has ended, the raylet ends
    for stream, given in enumerate(wanted.streams):
        os.dup2(given, stream)
        os.close(given)
    os.environ.clear()
    os.environb.update(wanted.environment)
    os.chdir(wanted.folder)
    sys.argv[:] = wanted.command
    gc.enable()


def _tell_when_connected(connection: socket.socket) -> None:
    from ray._private import worker

    connect = worker.connect

    @functools.wraps(connect)
    def connected(*args: Any, **more: Any) -> None:
        connect(*args, **more)
        with connection, suppress(OSError):
            connection.sendall(YES)

    worker.connect = connected


def _stamps() -> dict[str, int]:
    """When the files were written from which our modules were imported; without those that are gone."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in OURS and (path := getattr(module, "__file__", None)):
            with suppress(OSError):
                found[path] = Path(path).stat().st_mtime_ns
    return found


def _begin_anew(listening: socket.socket, told: dict[bytes, bytes]) -> None:
    place = listening.fileno()
    os.set_inheritable(place, True)
    os.execve(sys.executable, [sys.executable, "-P", __file__, str(place)], {**os.environb, **told})


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
