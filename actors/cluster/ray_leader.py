"""The leader of a local Ray: a small program that `ray_head.py` becomes when it has started Ray's processes, which are
its children then. If one of them ends, all end: where none is left, a new Ray is started, and a broken one stays. Only
the fork server (`fork_server.py`) is one that a Ray can do without.

It also listens where the agent that prepares runtime environments is to listen, and starts that agent when it is
called for the first time. Few installations need one, and it takes as much memory as a host.

It is run without `site` and imports only what it needs: it lives as long as Ray does.
"""

import json
import os
import select
import signal
import sys
import time


def main() -> None:
    told = json.loads(sys.argv[1])
    heard, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    for each in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(each, _noted)
    awaited = {heard, *({told["listening"]} - {-1})}
    while True:
        ready, _, _ = select.select(awaited, (), ())
        if heard in ready:
            for number in os.read(heard, 1_000):
                if number != signal.SIGCHLD:
                    _end(f"told to end by signal {number}")
            _reap(told["forks"])
        else:
            awaited.discard(told["listening"])
            os.close(told["listening"])
            _start(told["agent"], told["raylet"])


def _reap(forks: int) -> None:
    """Without the fork server, workers start as Ray starts them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid == forks:
            _say(f"the fork server has ended: {os.waitstatus_to_exitcode(status)}")
        else:
            _end(f"its process {pid} has ended: {os.waitstatus_to_exitcode(status)}")


def _start(agent: list[str], raylet: int) -> None:
    """Its end comes with ours: it reads from a pipe that we hold."""
    reads, _held = os.pipe()
    environment = {
        **os.environ,
        "RAY_RAYLET_PID": str(raylet),
        "RAY_enable_pipe_based_agent_to_parent_health_check": "1",
    }
    os.posix_spawn(agent[0], agent, environment, file_actions=[(os.POSIX_SPAWN_DUP2, reads, 0)])
    os.close(reads)


def _end(reason: str) -> None:
    _say(f"the local Ray ends: {reason}")
    os.killpg(0, signal.SIGKILL)


def _say(what: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {what}\n")
    sys.stderr.flush()


def _noted(number: int, frame: object) -> None:
    """The wakeup descriptor says it."""


if __name__ == "__main__":
    main()
