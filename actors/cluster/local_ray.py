"""Joining Ray: the cluster that was named, one that this user has started on this machine, or a local one that is
started here.

A local Ray is a process of its own, so what lives in it outlives the process that started it. Its address, its process
id and the token that it asks for are in `ray/ray.json` below the data folder; `stop` ends exactly that one. It listens
on loopback only, and its sockets and logs are in a folder that only this user can enter.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil
import ray
from filelock import FileLock
from pydantic import ValidationError
from ray._private import ray_constants
from ray._raylet import Config  # type: ignore[attr-defined]  # Ray's only way to see RAY_AUTH_MODE after its import
from ray.exceptions import RuntimeEnvSetupError

from actors import shipping
from actors.address import Files
from actors.cluster import ray_head
from actors.cluster.listeners import listens_on_loopback
from actors.cluster.private import make_private
from actors.cluster.running_ray import CURRENT, running_ray
from actors.settings import Settings
from agency.errors import CANNOT_START, DefinitionError, NotFound, Unavailable
from agency.wire import Wire

log = logging.getLogger(__name__)

START_SECONDS = 60.0
STOP_SECONDS = 10.0
MARK = "AGENCY_LOCAL_RAY"

PLACE = "/tmp/agency-ray-"
"""How the path of its folder begins. A socket's path has at most 107 bytes, of which Ray takes 68 below this folder, so
neither the data folder nor TMPDIR is short enough. `XDG_RUNTIME_DIR` goes away when the user logs out."""

BLIND = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EIO))
"""Errors of a process that can look at nothing now. They are no sign that what it looks for is gone."""


class LocalRay(Wire):
    """A Ray that was started here."""

    address: str
    pid: int
    """The leader of a session to which all its processes belong."""
    token: str
    """The file with the token that it asks for."""
    temp_dir: str
    """Its folder, which only we can enter; what Ray makes is below it."""
    mark: str
    """In the environment of its processes, so that a session with a reused pid is not taken for it."""

    @property
    def session_dir(self) -> Path:
        """Where its sockets and logs are."""
        below = _rays_folder(self.temp_dir)
        return ((below if below.exists() else Path(self.temp_dir)) / "session_latest").resolve()

    @property
    def processes(self) -> list[int]:
        found = session(self.pid)
        return found if any(_is_marked(pid, self.mark) for pid in found) else []  # titles overwrite some environments


def join(settings: Settings, *, start: bool = True, withheld: Collection[str] = ()) -> str:
    """Connect this process to Ray, starting one if there is none and `start` says so; return why it is this one. The
    variables that are withheld are not in the environment of what it starts. A Ray that we did not start is sent the
    code of what starts there."""
    if ray.is_initialized():
        return "this process had joined it before"
    code = shipping.runtime_env(settings) if start else None
    if (by_name := named(settings)) is not None:
        address, why = by_name
        _use_home_token()
        _connect(address, settings, code)
        return why
    if start:
        Files(settings.data_dir).prepare()
        _folder(settings.data_dir).mkdir(exist_ok=True)
    with _alone(settings.data_dir):
        local, why = find(settings.data_dir), f"it was started for {settings.data_dir}"
        running = running_ray() if local is None else None
        if running is not None and not running.refusal:
            _use_home_token()
            _connect(running.address, settings, code)
            return f"you have started it on this machine, as {running.note} says"
        if running is not None:
            log.warning("the Ray at %s is not joined: %s; %s", running.address, running.refusal, running.remedy)
        if local is None and not start:
            raise NotFound(f"nothing runs here: neither a local Ray of {settings.data_dir} nor another of yours")
        if local is None:
            local, why = _start(settings, withheld), "no other Ray was named, and none of yours ran"
        _use_token(Path(local.token))
    _connect(local.address, settings, None)
    return why


def address_of_another(settings: Settings) -> str | None:
    """The Ray that would be joined, if it is one that we did not start."""
    if (by_name := named(settings)) is not None:
        return by_name[0]
    running = running_ray() if find(settings.data_dir) is None else None
    return running.address if running is not None and not running.refusal else None


def named(settings: Settings) -> tuple[str, str] | None:
    """The Ray that was named, and by what. `auto` is Ray's word for any that is noted on this machine, and no name."""
    told = {"the settings name it": settings.ray_address, "RAY_ADDRESS names it": os.environ.get("RAY_ADDRESS")}
    return next(((address, why) for why, address in told.items() if address and address != "auto"), None)


def stop(data_dir: Path) -> bool:
    """End the local Ray of a data folder, if there is one."""
    noted = _noted(data_dir)
    if noted is None:
        return False
    if noted.processes and ray.is_initialized():
        ray.shutdown()
    deadline = time.monotonic() + STOP_SECONDS
    ours = bool(noted.processes)
    while ours and (left := session(noted.pid)) and time.monotonic() < deadline:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # whatever must last is on disk
        time.sleep(0.05)
    for left_over in (Path(noted.temp_dir), *_folder(data_dir).glob("warm-up-*")):
        shutil.rmtree(left_over, ignore_errors=True)
    (_folder(data_dir) / "ray.json").unlink(missing_ok=True)
    return True


def _connect(address: str, settings: Settings, code: dict[str, Any] | None) -> None:
    try:
        with _taken_as_it_is(address):
            ray.init(
                address=address,
                namespace=settings.namespace,
                runtime_env=code,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except RuntimeEnvSetupError as error:
        folder = code["working_dir"] if code is not None else ""
        raise DefinitionError(
            f"{folder} cannot be sent to the nodes of the cluster: {error} Leave out what is large by a .rayignore, "
            "or set AGENCY_SHIP_CODE=off if every node has the code"
        ) from error
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise Unavailable(f"cannot join Ray at {address}: {error}").telling(CANNOT_START) from error


@contextmanager
def _taken_as_it_is(address: str) -> Iterator[None]:
    """Ray takes a loopback address for this machine's address on the network, unless it is for one machine only; a Ray
    that listens on loopback is not found there."""
    for_network = ray_constants.ENABLE_RAY_CLUSTER
    if listens_on_loopback(address):
        ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = for_network


def listens(address: str) -> bool:
    """Whether a server listens at an address. Ray itself would take its time to say no. `Unavailable`, if this process
    cannot look: that says nothing about the server."""
    host, _, port = address.rpartition(":")
    try:
        with _seeing():
            socket.create_connection((host, int(port)), timeout=2).close()
    except (OSError, ValueError):
        return False
    return True


@contextmanager
def _seeing() -> Iterator[None]:
    """Raise `Unavailable` for errors of a process that can look at nothing now."""
    try:
        yield
    except OSError as error:
        if error.errno in BLIND:
            raise Unavailable(f"cannot see whether a local Ray runs: {error.strerror}") from error
        raise


# A local Ray of our own.


def _start(settings: Settings, withheld: Collection[str]) -> LocalRay:
    stop(settings.data_dir)  # a Ray that was killed may have left processes and files
    folder = _folder(settings.data_dir)
    token = Path(os.environ.get("RAY_AUTH_TOKEN_PATH", folder / "token"))  # a process can use only one
    if not token.exists():
        with os.fdopen(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
    _use_token(token)
    temp = make_private(PLACE)
    command = [sys.executable, "-P", ray_head.__file__, f"--folder={_rays_folder(temp)}"]
    if settings.ray_dashboard:
        command.append("--dashboard")
    with (folder / "ray.log").open("wb") as out:
        mark = secrets.token_hex(8)
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=_environment(withheld, mark),
        )
    started = LocalRay(address="", pid=process.pid, token=str(token), temp_dir=str(temp), mark=mark)
    (folder / "ray.json").write_text(started.model_dump_json())  # at once: whatever happens to us, it can be stopped
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        current = _rays_folder(temp) / CURRENT
        if current.exists() and (address := current.read_text().strip()):
            started = started.model_copy(update={"address": address})
            (folder / "ray.json").write_text(started.model_dump_json())
            process.returncode = 0  # it is meant to outlive us
            return started
        time.sleep(0.02)
    for pid in session(process.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    raise Unavailable(f"Ray did not start; {folder / 'ray.log'} tells why").telling(CANNOT_START)


def _environment(withheld: Collection[str], mark: str) -> dict[str, str]:
    """Without secrets: hosts are given theirs, and a tool that runs as a Ray task those that it declares. Ray runs its
    workers as if they were batch jobs; ours are servers."""
    left_out = {*withheld, "AGENCY_SECRET"}
    inherited = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**inherited, "RAY_worker_niceness": "0", MARK: mark}


def _is_marked(pid: int, mark: str) -> bool:
    try:
        with _seeing():
            return psutil.Process(pid).environ().get(MARK) == mark
    except psutil.Error:
        return False


def find(data_dir: Path) -> LocalRay | None:
    """The local Ray of a data folder, if it runs."""
    noted = _noted(data_dir)
    return noted if noted is not None and noted.processes and listens(noted.address) else None


def was_started(data_dir: Path) -> bool:
    """Whether a local Ray of a data folder was started, and not stopped; it may have died. Only a note that is not
    there means stopped; any other reason not to find it is raised."""
    try:
        (_folder(data_dir) / "ray.json").stat()
    except FileNotFoundError:
        return False
    return True


def _noted(data_dir: Path) -> LocalRay | None:
    try:
        with _seeing():
            return LocalRay.model_validate_json((_folder(data_dir) / "ray.json").read_bytes())
    except (OSError, ValidationError):
        return None


def _folder(data_dir: Path) -> Path:
    return data_dir / "ray"


def _alone(data_dir: Path) -> AbstractContextManager[object]:
    """A lock, so that two processes that start at once do not start two Rays. Without a folder, no Ray was ever started
    here and none will be, so there is nothing to lock."""
    folder = _folder(data_dir)
    return FileLock(folder / "lock") if folder.exists() else nullcontext()


def session(leader: int) -> list[int]:
    """The living processes of a session."""
    found = []
    with _seeing():
        for pid in psutil.pids():
            with suppress(
                ProcessLookupError, FileNotFoundError, PermissionError, psutil.Error
            ):  # it has ended meanwhile
                if os.getsid(pid) == leader and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                    found.append(pid)
    return found


def _rays_folder(temp_dir: str | Path) -> Path:
    """Ray's own folder. Earlier releases had none around it."""
    return Path(temp_dir) / "ray"


# Ray asks for a token, ours or that in the home folder.


def _use_token(token: Path) -> None:
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)
    Config.initialize("")


def _use_home_token() -> None:
    home = Path.home() / ".ray" / "auth_token"
    if "RAY_AUTH_MODE" not in os.environ and home.exists():
        os.environ["RAY_AUTH_MODE"] = "token"
        Config.initialize("")
