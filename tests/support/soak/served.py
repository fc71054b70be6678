"""The installation that a soak loads and kills: a real `agency serve` with data, a Ray and a port of its own."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Literal

import psutil

from actors import Settings
from actors.cluster import local_ray
from tests.support.gateways import Server
from tests.support.processes import kill, lives, session_of, titled

Kind = Literal["keeper", "gateway", "directory", "host", "ray"]
HOSTS = "3"
STARTS = 3
SECRET = "the secret of a soak"


class Served:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="agency-soak-", dir="/tmp"))  # a socket's path must be short
        os.environ["RAY_TMPDIR"] = str(self.folder)  # so that no other Ray of this machine is joined
        settings = Settings(
            system="tests.support.scripted_system:system", data_dir=self.folder / "data", namespace="soak"
        )
        # As many hosts as are allowed are kept, so that none ends because it is empty, and a host that ends has died.
        pool = {"AGENCY_WARM_HOSTS": HOSTS, "AGENCY_ACTORS_PER_NODE": HOSTS}
        environment = {**pool, "AGENCY_SECRET": SECRET, "AGENCY_HIBERNATE_AFTER": "1", "AGENCY_LOG_LEVEL": "WARNING"}
        try:
            self._server = self._started(settings, environment)
            self._session = session_of(settings)
        except BaseException:
            self.stop()
            raise

    def _started(self, settings: Settings, environment: dict[str, str]) -> Server:
        """Ray gives up after half a minute on a machine that is busy with other things; that is not what is tried."""
        for _ in range(STARTS - 1):
            try:
                return Server(settings, self.folder / "log", **environment)
            except AssertionError as error:
                if "Ray did not start" not in str(error):
                    raise
                local_ray.stop(settings.data_dir)
        return Server(settings, self.folder / "log", **environment)

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def log(self) -> str:
        return self._server.log.read_text(errors="replace")

    def processes(self) -> dict[Kind, list[int]]:
        """The living processes of each kind. Those of Ray itself, of which none is ever killed here, are one kind."""
        ours: dict[Kind, list[int]] = {
            "keeper": [self._server.process.pid],
            "gateway": self._gateways(),
            "directory": titled("ray::Directory", self._session),
            "host": titled("ray::Host", self._session),
        }
        named = {pid for pids in ours.values() for pid in pids}
        rest = [pid for pid in local_ray.session(self._session) if pid not in named and not titled_as_worker(pid)]
        return {kind: [pid for pid in pids if lives(pid)] for kind, pids in {**ours, "ray": rest}.items()}

    def _gateways(self) -> list[int]:
        with suppress(psutil.NoSuchProcess):
            return [child.pid for child in psutil.Process(self._server.process.pid).children()]
        return []

    def kill_one(self, kind: Kind) -> bool:
        """End a process of a kind with no warning, if there is one."""
        found = self.processes()[kind]
        if found:
            kill(random.choice(found))
        return bool(found)

    def stop(self) -> None:
        """End all of it, and remove its files."""
        server: Server | None = getattr(self, "_server", None)
        if server is not None:
            try:
                server.stop()
            except subprocess.TimeoutExpired:
                server.kill()
        local_ray.stop(self.folder / "data")
        os.environ.pop("RAY_TMPDIR", None)
        shutil.rmtree(self.folder, ignore_errors=True)


def titled_as_worker(pid: int) -> bool:
    """Whether it is a worker of Ray that waits for something to do, or does it: they come and go."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::")
    except OSError:
        return True
