"""Which Ray is joined: one that was named, one that this user has started here, or none of those that are there."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors import Settings
from actors.cluster import local_ray
from actors.cluster.noted import InstallationNote, where_it_runs
from actors.cluster.private import make_private, user_name
from actors.cluster.running_ray import running_ray
from tests.support.listening import NOBODY, listener, noted_ray, only_as_root, was_called
from tests.support.terminals import agency


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What is `/tmp` for Ray: a folder that everybody can enter and, as there, write."""
    place = make_private("/tmp/agency-tests-")
    place.chmod(0o1777)
    monkeypatch.setenv("RAY_TMPDIR", str(place))
    yield place
    shutil.rmtree(place)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Something of this user's that listens, and that must not be called."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def refusal() -> str | None:
    found = running_ray()
    return None if found is None else found.refusal


# What is this user's.


def test_a_ray_of_this_user_is_found_below_a_folder_of_this_user(temporary: Path, address: str) -> None:
    assert refusal() is None, "nothing is noted"
    note = noted_ray(temporary, address)
    note.parent.chmod(0o755)
    found = running_ray()
    assert found is not None
    assert (found.address, found.note, found.refusal) == (address, note, "")
    temporary.chmod(0o700)
    note.parent.chmod(0o777)  # as Ray makes it
    assert refusal() == ""


def test_the_note_of_a_ray_that_has_ended_is_overlooked(temporary: Path, server: socket.socket, address: str) -> None:
    temporary.chmod(0o700)
    noted_ray(temporary, address)
    server.close()
    assert running_ray() is None
    for nonsense in ("", "nonsense", "127.0.0.1:99999999", "127.0.0.1:notaport", "evil.example:6379", "\0:1"):
        noted_ray(temporary, nonsense)
        assert running_ray() is None, nonsense


# What is not, or may not be.


def test_a_note_in_a_folder_that_others_can_write_does_not_count(temporary: Path, address: str) -> None:
    note = noted_ray(temporary, address)
    assert refusal() == f"{note.parent} can be written by others (mode 0777)"


def test_a_note_that_is_a_link_does_not_count(temporary: Path, address: str) -> None:
    temporary.chmod(0o700)
    note = noted_ray(temporary, address)
    kept = note.rename(note.with_name("kept"))
    note.symlink_to(kept)
    assert refusal() == f"{note} is a symbolic link"
    note.unlink()
    os.mkfifo(note)
    assert running_ray() is None, "and nothing waits for what a pipe says"


@only_as_root
def test_a_note_that_another_user_has_planted_does_not_count(temporary: Path, address: str) -> None:
    note = noted_ray(temporary, address)
    note.parent.chmod(0o755)
    os.chown(note, NOBODY, NOBODY)
    assert (refusal() or "").startswith(f"{note} belongs to ")
    os.chown(note, 0, 0)
    os.chown(note.parent, NOBODY, NOBODY)
    assert (refusal() or "").startswith(f"{note.parent} belongs to ")


@only_as_root
def test_a_port_that_another_user_has_taken_over_does_not_count(temporary: Path) -> None:
    temporary.chmod(0o700)
    for host, said in (("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]")):
        with listener(NOBODY, host=host) as port:
            noted_ray(temporary, f"{said}:{port}")
            assert (refusal() or "").startswith("what listens there belongs to "), host


def test_a_ray_on_another_machine_is_joined_only_by_name(temporary: Path) -> None:
    temporary.chmod(0o700)
    noted_ray(temporary, "192.0.2.77:6379")
    assert refusal() == "it is on another machine, where it cannot be seen whose it is"


@only_as_root
def test_the_note_of_an_installation_does_not_lead_to_who_has_its_port_now(tmp_path: Path) -> None:
    settings = Settings(system="tests.support.scripted_system:system", data_dir=tmp_path)
    with listener(NOBODY) as port:
        for owner, found in (("root", None), ("", f"127.0.0.1:{port}")):
            note = InstallationNote(namespace="n", ray_address=f"127.0.0.1:{port}", ray_owner=owner)
            (tmp_path / "installation.json").write_text(note.model_dump_json())
            assert where_it_runs(settings).ray_address == found


# The command.


@only_as_root
def test_what_another_user_has_planted_is_told_and_not_called(
    temporary: Path, server: socket.socket, address: str, tmp_path: Path
) -> None:
    note = noted_ray(temporary, address)
    os.chown(note, NOBODY, NOBODY)
    for named in ("", "auto"):
        done = agency("status", "--data-dir", tmp_path / "data", folder=tmp_path, RAY_ADDRESS=named)
        assert done.returncode == 1 and "nothing runs here" in done.stderr
        assert f"the Ray at {address} is not joined: " in done.stderr
        assert f"say --ray-address {address}" in done.stderr.replace("\n", " ")
    looked = agency("doctor", "--data-dir", tmp_path / "data", folder=tmp_path)
    assert f"! another Ray       {address} is not joined: " in looked.stdout
    assert not was_called(server)


def test_a_ray_that_this_user_has_started_is_joined_and_told(
    shared_ray: Settings, temporary: Path, tmp_path: Path
) -> None:
    running = local_ray.find(shared_ray.data_dir)
    assert running is not None
    temporary.chmod(0o700)
    noted_ray(temporary, running.address)
    where = ("--data-dir", tmp_path / "data")
    own = {"AGENCY_NAMESPACE": f"which-{secrets.token_hex(4)}", "AGENCY_WARM_HOSTS": "0"}
    which = f"{running.address} (of {user_name(os.geteuid())}, on this machine)"
    why = f"you have started it on this machine, as {temporary}/ray/ray_current_cluster says"
    up = agency("up", "dashboard.demo:system", *where, folder=tmp_path, **own)
    assert f"Ray {which}: {why}\n" in up.stdout, up.stderr
    looked = agency("doctor", *where, folder=tmp_path, **own).stdout
    assert f"✓ Ray in use        {which}: {why}\n" in looked
    assert "✓ Ray's folder      only you can enter it" in looked
    assert "stopped" in agency("down", *where, folder=tmp_path).stderr
    assert local_ray.find(shared_ray.data_dir) is not None, "which is not its to stop"


def test_a_ray_that_is_named_on_the_line_is_joined(shared_ray: Settings, temporary: Path, tmp_path: Path) -> None:
    running = local_ray.find(shared_ray.data_dir)
    assert running is not None
    where = ("--data-dir", tmp_path / "data", "--ray-address", running.address)
    own = {"AGENCY_NAMESPACE": f"which-{secrets.token_hex(4)}", "AGENCY_WARM_HOSTS": "0"}
    up = agency("up", "dashboard.demo:system", *where, "--json", folder=tmp_path, **own)
    assert up.returncode == 0, up.stderr
    found = json.loads(up.stdout)["ray"]
    assert (found["address"], found["local"], found["reason"]) == (running.address, False, "the settings name it")
    assert not (tmp_path / "data" / "ray" / "ray.json").exists(), "and none was started"
    assert "stopped" in agency("down", *where, folder=tmp_path).stderr
