"""Workers made by forking: as new as if each were a new process, and as Ray would start it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.cluster import fork_server, ray_worker
from tests.support.waiting import eventually

PROGRAM = """
import json, os, random, secrets, signal, sys, threading
import ray
print(json.dumps({
    "pid": os.getpid(), "group": os.getpgid(0), "argv": sys.argv, "cwd": os.getcwd(),
    "mill": os.environ.get("MILL"), "server": os.environ.get("OF_SERVER"),
    "threads": len(os.listdir("/proc/self/task")), "random": random.random(), "of_ray": ray.NodeID.from_random().hex(),
    "child_signal": signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL,
    "sockets": [each for each in map(link, os.listdir("/proc/self/fd")) if each.startswith("socket:")],
    "preloaded": "actors.host.host" in sys.modules,
}))
"""
LINK = """
def link(number):
    import os
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return ""
"""

Ask = Callable[..., dict[str, object]]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[str]:
    """Where a fork server listens that serves copies of our packages, which may be changed."""
    packages = Path(fork_server.__file__).parents[2]
    for name in fork_server.OURS:
        shutil.copytree(packages / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    path = str(tmp_path / "forks")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        number = listening.fileno()
        os.set_inheritable(number, True)
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "OF_SERVER": "1", "RAY_JOB_ID": "01000000"}
        environment["RAY_RAYLET_PID"] = str(os.getpid())
        program = tmp_path / "actors" / "cluster" / "fork_server.py"
        server = subprocess.Popen(
            [sys.executable, "-P", program, str(number)], env=environment, pass_fds=[number], cwd=tmp_path
        )
    yield path
    server.kill()
    server.wait()


@pytest.fixture
def ask(place: str, tmp_path: Path) -> Ask:
    """Have a worker made that says what it is; it tells the server at once that it is connected, as Ray would."""
    program = tmp_path / "worker.py"
    program.write_text(LINK + PROGRAM)

    def asked(*arguments: str, job: str = "01000000", **environment: str) -> dict[str, object]:
        command = [sys.executable, "-I", "-S", ray_worker.__file__, place, "setup.py", str(program), *arguments]
        told = {"PATH": os.environ["PATH"], "RAY_JOB_ID": job, "RAY_RAYLET_PID": str(os.getpid()), **environment}
        done = subprocess.run(command, env=told, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        found: dict[str, object] = json.loads(done.stdout)
        return found

    return asked


def test_a_worker_is_as_ray_would_start_it_and_has_nothing_of_the_server(ask: Ask, tmp_path: Path) -> None:
    found = ask("--worker-id=7", MILL="flour")
    assert found["preloaded"]
    assert found["argv"] == [str(tmp_path / "worker.py"), "--worker-id=7"]
    assert (found["cwd"], found["mill"], found["server"]) == (str(tmp_path), "flour", None)
    assert (found["threads"], found["group"], found["child_signal"]) == (1, found["pid"], True)
    assert len(found["sockets"]) == 1, "the one on which it tells that it is connected"  # type: ignore[arg-type]


def test_workers_share_no_random_numbers(ask: Ask) -> None:
    one, other = ask(), ask()
    assert one["preloaded"] and other["preloaded"]
    assert one["random"] != other["random"]
    assert one["of_ray"] != other["of_ray"], "a module that is imported ahead has made an actor class or a Ray task"


async def test_a_changed_module_is_not_served(ask: Ask, tmp_path: Path) -> None:
    assert ask()["preloaded"]
    with (tmp_path / "actors" / "status.py").open("a") as file:
        file.write("# changed\n")
    assert not ask()["preloaded"], "it is started as Ray starts it"
    await eventually(lambda: ask()["preloaded"])


async def test_when_a_job_has_no_worker_left_another_is_served(ask: Ask) -> None:
    assert ask()["preloaded"]
    assert not ask(job="02000000")["preloaded"]
    await eventually(lambda: ask(job="02000000")["preloaded"])


def test_without_a_server_a_worker_is_started_as_ray_starts_it(tmp_path: Path) -> None:
    program = tmp_path / "worker.py"
    program.write_text("import sys; print(sys.argv[1:])")
    for arguments in (["--worker-id=7", "--language=PYTHON"], ["--worker-id=7"]):
        command = [sys.executable, "-I", "-S", ray_worker.__file__, str(tmp_path / "none"), "setup.py", str(program)]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
        assert done.stdout == "['--worker-id=7']\n"
    with_environment = [*command, "worker.py", "--serialized-runtime-env-context={}", "--language=PYTHON"]
    with_environment[5] = str(program)  # in the place of Ray's program for setting a worker up
    done = subprocess.run(with_environment, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("'worker.py', '--serialized-runtime-env-context={}', '--language=PYTHON']\n")
