"""What the raylet of a local Ray starts in place of a worker: a small program that asks the fork server for one, with
its own arguments, environment, folder and standard streams. The raylet knows a worker by the id among its arguments,
and learns the process id from the worker itself; this program ends when it has.

It starts a worker as Ray would where the fork server cannot: if that does not answer, and for a runtime environment,
which may want another interpreter.

It is run without `site` and imports only what is built in, because it is in every worker's way.
"""

import _socket as socket
import array
import marshal
import os
import struct
import sys

ENVIRONMENT = "--serialized-runtime-env-context="
LANGUAGE = "--language="
"""What Ray's program for setting a worker up is told, and the worker is not."""

SECONDS = 60.0


def main() -> None:
    place, set_up, *worker = sys.argv[1:]
    if any(each.startswith(ENVIRONMENT) for each in worker):
        os.execv(sys.executable, [sys.executable, set_up, *worker])
    command = [each for each in worker if not each.startswith(LANGUAGE)]
    answer = _asked(place, command)
    if answer == b"0":
        os.execv(sys.executable, [sys.executable, *command])
    sys.exit(answer != b"1")


def _asked(place: str, command: list[str]) -> bytes:
    """What comes of it: 1 if the raylet knows the worker, 0 if there is none, nothing if it has died before."""
    wanted = marshal.dumps((command, dict(os.environb), os.getcwdb()))  # noqa: PTH109
    sent = struct.pack("!I", len(wanted)) + wanted
    streams = array.array("i", (0, 1, 2))
    asking = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    asking.settimeout(SECONDS)
    try:
        asking.connect(place)
    except OSError:
        return b"0"
    try:
        begun = asking.sendmsg([sent], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
        asking.sendall(sent[begun:])
        return asking.recv(1)
    except OSError:
        return b""


if __name__ == "__main__":
    main()
