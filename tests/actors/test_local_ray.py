"""The local Ray: nobody else on the machine gets at its files, nobody on the network at its ports."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from actors import Cluster, Settings
from actors.cluster import local_ray
from actors.cluster.local_ray import LocalRay
from actors.cluster.private import check_private, make_private, who_can_change, who_can_enter
from actors.cluster.ray_in_use import local_ray_of, tell
from actors.status import RayInUse
from agency.errors import Unavailable
from tests.support.listening import NOBODY, listener, only_as_root
from tests.support.waiting import eventually

SOCKET_BYTES = 107


@pytest.fixture
def running(shared_ray: Settings) -> LocalRay:
    found = local_ray.find(shared_ray.data_dir)
    assert found is not None
    return found


@pytest.fixture
def folder() -> Iterator[Path]:
    """A private folder, below which the modes and owners of others are tried."""
    made = make_private("/tmp/agency-tests-")
    made.chmod(0o755)  # or nothing below it would matter
    yield made
    subprocess.run(["rm", "-rf", str(made)], check=True)


# Its folder.


def test_its_files_are_in_a_folder_that_only_its_user_can_enter(shared_ray: Settings, running: LocalRay) -> None:
    found = Path(running.temp_dir).lstat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o700, os.geteuid())
    sockets = [place for place in running.session_dir.rglob("*") if place.is_socket()]
    assert {place.name for place in sockets} >= {"raylet", "plasma_store"}
    assert all(place.is_relative_to(running.temp_dir) for place in sockets)
    longest = max(len(str(place)) for place in sockets) - len(str(running.pid)) + len("4194304")
    assert longest <= SOCKET_BYTES, "with the longest process id, too"
    elsewhere = (running.temp_dir, shared_ray.data_dir.parent)
    for pid in running.processes:
        for file in (each for each in opened(pid) if each.is_relative_to("/tmp")):
            assert any(file.is_relative_to(place) for place in elsewhere), file


def opened(pid: int) -> Iterator[Path]:
    with suppress(OSError):  # it has ended
        for each in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield each.readlink()


@only_as_root
def test_another_user_gets_nowhere_near_them(running: LocalRay) -> None:
    tries = "import os, sys; os.setuid(int(sys.argv[1])); os.listdir(sys.argv[2])"
    for place in (running.temp_dir, running.session_dir, running.session_dir / "sockets"):
        command = [sys.executable, "-c", tries, str(NOBODY), str(place)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert "PermissionError" in done.stderr, place


def test_a_folder_that_is_opened_to_others_or_has_a_planted_link_is_told(
    shared_ray: Settings, running: LocalRay
) -> None:
    def problem() -> str:
        found = local_ray_of(shared_ray.data_dir)
        assert found is not None
        return found.folder_problem

    assert problem() == ""
    Path(running.temp_dir).chmod(0o755)
    try:
        assert problem() == f"{running.temp_dir}/ray can be written by others (mode 0777)"
    finally:
        Path(running.temp_dir).chmod(0o700)
    planted = running.session_dir / "logs" / "monitor.out"
    planted.symlink_to("/etc/hostname")
    try:
        assert problem() == f"{planted} is a symbolic link, which Ray does not make"
    finally:
        planted.unlink()


@only_as_root
def test_a_folder_that_is_not_private_is_refused_with_what_is_wrong(folder: Path) -> None:
    ours, theirs, link, loose, file = (folder / name for name in ("ours", "theirs", "link", "loose", "file"))
    for place in (ours, theirs, loose):
        place.mkdir(0o700)
    os.chown(theirs, NOBODY, NOBODY)
    link.symlink_to(ours)
    loose.chmod(0o750)
    file.touch()
    check_private(ours)
    for place, problem in (
        (theirs, "belongs to"),
        (link, "is a symbolic link"),
        (loose, "has the mode 0750"),
        (file, "is no folder"),
    ):
        with pytest.raises(Unavailable, match=rf"{place} {problem}.*takes a folder of \w+ with the mode 0700"):
            check_private(place)


def test_a_private_folder_is_new_and_not_in_a_folder_where_others_replace_it(folder: Path) -> None:
    old_mask = os.umask(0o777)
    try:
        made = make_private(str(folder / "mine-"))
    finally:
        os.umask(old_mask)
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    folder.chmod(0o1777)
    assert make_private(str(folder / "mine-")) != made
    folder.chmod(0o777)
    with pytest.raises(Unavailable, match=r"can be replaced by other users: .* \(mode 0777\)"):
        make_private(str(folder / "mine-"))
    with pytest.raises(Unavailable, match="cannot be made: No such file"):
        make_private(str(folder / "no" / "folder-"))


def test_what_is_below_a_private_folder_is_private_whatever_its_mode(folder: Path) -> None:
    below = folder / "below"
    below.mkdir()
    below.chmod(0o777)
    assert who_can_change(below / "note") == f"{below} can be written by others (mode 0777)"
    assert who_can_enter(folder / "ours") == f"{folder / 'ours'} cannot be looked at: No such file or directory"
    assert who_can_enter(folder) == f"other users can enter {folder}"
    folder.chmod(0o700)
    assert (who_can_change(below), who_can_enter(below)) == ("", "")
    link = folder.with_name(f"{folder.name}-link")
    link.symlink_to(below)
    try:
        assert who_can_enter(link) == "", "a link of ours leads there"
    finally:
        link.unlink()


# Its ports.


async def test_it_listens_on_loopback_and_nowhere_else(cluster: Cluster, running: LocalRay) -> None:
    agency = await cluster.create_agency("bakery")
    await (await agency.create_thread("clerk", json.dumps([{"text": "hello"}]))).wait(60)
    ports: set[int] = set()
    for pid in [*running.processes, os.getpid()]:
        with suppress(psutil.NoSuchProcess):
            for each in psutil.Process(pid).net_connections("inet"):
                if each.status == psutil.CONN_LISTEN:
                    assert each.laddr.ip in ("127.0.0.1", "::1", "::ffff:127.0.0.1"), (pid, each.laddr)
                    ports.add(each.laddr.port)
    assert len(ports) >= 6, "the control store, the node and its objects, the leader, hosts and this process"
    outside = [
        each.address for name in psutil.net_if_addrs().values() for each in name if each.family == socket.AF_INET
    ]
    for address in (each for each in outside if not each.startswith("127.")):
        for port in ports:
            with socket.socket() as client:
                assert client.connect_ex((address, port)) != 0, (address, port)
    found = await cluster.ray()
    assert (found.local, found.address, found.open_ports) == (True, running.address, ())


def test_helpers_that_one_machine_does_not_need_do_not_run(running: LocalRay) -> None:
    titles = [" ".join(psutil.Process(pid).cmdline()) for pid in running.processes]
    assert any("raylet" in title for title in titles)
    for helper in ("monitor.py", "log_monitor.py", "ray.util.client.server", "dashboard.py", "dashboard/agent.py"):
        assert not any(helper in title for title in titles), helper


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Callable[[], str]]:
    """A local Ray of one's own: asks a program that joins it, and has a Ray task look at the environment."""
    program = """
import os, sys, ray
from actors.cluster import local_ray
from actors.settings import Settings
local_ray.join(Settings(system="dashboard.demo:system", data_dir=sys.argv[1]))
looked = ray.remote(lambda: os.environ.get("MILL", "nothing"))
print(ray.get([looked.remote(), looked.options(runtime_env={"env_vars": {"MILL": "flour"}}).remote()]))
"""

    def asked() -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    yield asked
    local_ray.stop(tmp_path)


def test_environments_are_prepared_by_an_agent_that_starts_when_it_is_needed(
    own: Callable[[], str], tmp_path: Path
) -> None:
    assert own() == "['nothing', 'flour']"
    found = local_ray.find(tmp_path)
    assert found is not None
    titles = [" ".join(psutil.Process(pid).cmdline()) for pid in found.processes]
    assert sum("RuntimeEnvAgent" in title for title in titles) == 1
    assert own() == "['nothing', 'flour']"


@pytest.mark.kills
@pytest.mark.parametrize("which", ["raylet", "gcs_server", "ray_leader"])
async def test_if_a_part_of_it_is_killed_all_of_it_ends_and_the_next_join_starts_another(
    own: Callable[[], str], tmp_path: Path, which: str
) -> None:
    own()
    killed = local_ray.find(tmp_path)
    assert killed is not None
    (part,) = (pid for pid in killed.processes if is_program(pid, which))
    os.kill(part, signal.SIGKILL)
    parts = ("raylet", "gcs_server", "ray_leader", "ForkServer")
    await eventually(lambda: not any(is_program(pid, name) for pid in killed.processes for name in parts))
    assert local_ray.was_started(tmp_path)
    assert own() == "['nothing', 'flour']"
    started = local_ray.find(tmp_path)
    assert started is not None and started.pid != killed.pid


@pytest.mark.kills
async def test_if_the_raylet_is_killed_its_workers_end_though_the_process_that_joined_it_goes_on(
    tmp_path: Path,
) -> None:
    program = """
import os, signal, sys, time, ray
from actors.cluster import local_ray
from actors.settings import Settings
local_ray.join(Settings(system="dashboard.demo:system", data_dir=sys.argv[1]))
print(ray.get(ray.remote(lambda: os.getpid()).remote()), flush=True)
time.sleep(60)
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    joined = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert joined.stdout is not None
        worker = int(joined.stdout.readline())
        found = local_ray.find(tmp_path)
        assert found is not None and worker in found.processes
        (raylet,) = (pid for pid in found.processes if is_program(pid, "raylet/raylet"))
        os.kill(raylet, signal.SIGKILL)
        await eventually(lambda: not psutil.pid_exists(worker))
    finally:
        joined.kill()
        joined.wait()
        local_ray.stop(tmp_path)


@pytest.mark.kills
def test_without_its_fork_server_it_starts_workers_as_ray_does(own: Callable[[], str], tmp_path: Path) -> None:
    own()
    found = local_ray.find(tmp_path)
    assert found is not None
    (server,) = (pid for pid in found.processes if is_program(pid, "ForkServer"))
    os.kill(server, signal.SIGKILL)
    assert own() == "['nothing', 'flour']"
    assert local_ray.find(tmp_path) == found


def is_program(pid: int, name: str) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any(name in each for each in psutil.Process(pid).cmdline()[:4])
    return False


def test_a_port_beyond_loopback_is_told(
    shared_ray: Settings, running: LocalRay, caplog: pytest.LogCaptureFixture
) -> None:
    with listener(os.geteuid(), running.session_dir.name, host="127.0.0.1") as port:
        found = local_ray_of(shared_ray.data_dir)
        assert found is not None and found.open_ports == (), port
    with listener(os.geteuid(), running.session_dir.name, host="0.0.0.0") as port:
        found = local_ray_of(shared_ray.data_dir)
        assert found is not None and found.open_ports == (f"0.0.0.0:{port}",)
    caplog.set_level(logging.INFO)
    tell(found)
    told = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(rf"joined Ray at {running.address} \(local, of \w+\), because it was started for .*", told[0])
    assert told[1].startswith(f"Ray listens beyond loopback: 0.0.0.0:{port}; ")


def test_a_cluster_of_several_machines_may_listen_on_the_network(caplog: pytest.LogCaptureFixture) -> None:
    tell(
        RayInUse(
            address="10.0.0.1:6379",
            local=False,
            owner="",
            reason="RAY_ADDRESS names it",
            folder_problem="/tmp/ray can be written by others (mode 0777)",
            open_ports=("[::]:6380",),
        )
    )
    (told,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "/tmp/ray can be written by others" in told and "--temp-dir" in told


# Its end.


def test_one_that_an_earlier_release_started_is_stopped_with_all_that_it_left(tmp_path: Path) -> None:
    temp = tmp_path / "agency-ray-12345678"
    (temp / "session_1").mkdir(parents=True)
    (temp / "session_latest").symlink_to(temp / "session_1")
    for place in (temp, temp / "session_1"):
        place.chmod(0o777)
    process = subprocess.Popen(["sleep", "600"], start_new_session=True, env={**os.environ, local_ray.MARK: "its mark"})
    try:
        note = {"address": "192.0.2.1:1", "pid": process.pid, "token": "t", "tempDir": str(temp), "mark": "its mark"}
        (tmp_path / "ray").mkdir()
        (tmp_path / "ray" / "ray.json").write_text(json.dumps(note))
        assert LocalRay.model_validate(note).session_dir == temp / "session_1"
        assert local_ray.stop(tmp_path)
        process.wait(20)
        assert not temp.exists() and not local_ray.was_started(tmp_path)
    finally:
        process.kill()
        process.wait()
