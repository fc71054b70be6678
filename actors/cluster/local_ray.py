"""Joining Ray: the cluster that was named, the one that runs on this machine, or a local one that is started here.

A local Ray is a process of its own, so what lives in it outlives the process that started it. Its address, its process
id and the token that it asks for are in `ray/ray.json` below the data folder; `stop` ends exactly that one.
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
from ray._raylet import Config  # type: ignore[attr-defined]  # Ray's only way to see RAY_AUTH_MODE after its import
from ray.exceptions import RuntimeEnvSetupError

from actors import shipping
from actors.address import Files
from actors.settings import Settings
from agency.errors import DefinitionError, NotFound, Unavailable
from agency.wire import Wire

START_SECONDS = 60.0
STOP_SECONDS = 10.0
MARK = "AGENCY_LOCAL_RAY"
CURRENT = "ray_current_cluster"  # where Ray itself notes its address

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
    mark: str
    """In the environment of its processes, so that a session with a reused pid is not taken for it."""

    @property
    def processes(self) -> list[int]:
        found = session(self.pid)
        return found if any(_is_marked(pid, self.mark) for pid in found) else []  # titles overwrite some environments


def join(settings: Settings, *, start: bool = True, withheld: Collection[str] = ()) -> None:
    """Connect this process to Ray, starting one if there is none and `start` says so. The variables that are withheld
    are not in the environment of what it starts. A Ray that we did not start is sent the code of what starts there."""
    if ray.is_initialized():
        return
    code = shipping.runtime_env(settings) if start else None
    address = settings.ray_address or os.environ.get("RAY_ADDRESS") or None
    if address is None:
        if start:
            Files(settings.data_dir).prepare()
            _folder(settings.data_dir).mkdir(exist_ok=True)
        with _alone(settings.data_dir):
            running = find(settings.data_dir)
            if running is not None:
                address, code = running.address, None
                _use_token(Path(running.token))
            elif not _join_running(settings, code):
                if not start:
                    raise NotFound(f"nothing runs here: neither a local Ray of {settings.data_dir} nor another")
                address, code = _start(settings, withheld).address, None
    else:
        _use_home_token()
    if address is not None:
        _connect(address, settings, code)


def address_of_another(settings: Settings) -> str | None:
    """The Ray that would be joined, if it is one that we did not start."""
    named = settings.ray_address or os.environ.get("RAY_ADDRESS")
    return named or (None if find(settings.data_dir) is not None else _running())


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
        raise Unavailable(f"cannot join Ray at {address}: {error}") from error


def _join_running(settings: Settings, code: dict[str, Any] | None) -> bool:
    """Join the cluster that a person has started on this machine, as by `ray start --head`."""
    address = _running()
    if address is None:
        return False
    _use_home_token()
    _connect(address, settings, code)
    return True


def _running() -> str | None:
    current = Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray" / CURRENT
    address = current.read_text().strip() if current.exists() else ""
    return address if listens(address) else None


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
    temp = Path(f"/tmp/agency-ray-{secrets.token_hex(4)}")  # a socket's path must be short
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--port=0"]
    command += [f"--include-dashboard={str(settings.ray_dashboard).lower()}", "--disable-usage-stats"]
    command += [f"--temp-dir={temp}", f"--ray-client-server-port={_free_port()}"]
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
        if (temp / CURRENT).exists() and "Ray runtime started" in (folder / "ray.log").read_text():
            started = started.model_copy(update={"address": (temp / CURRENT).read_text().strip()})
            (folder / "ray.json").write_text(started.model_dump_json())
            process.returncode = 0  # it is meant to outlive us
            return started
        time.sleep(0.05)
    for pid in session(process.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    raise Unavailable(f"Ray did not start; {folder / 'ray.log'} tells why")


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


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


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
