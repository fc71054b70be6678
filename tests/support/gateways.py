"""Gateways as their users start them: processes, on the Ray that all tests share."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx

from actors import Settings
from dashboard.gateway.discovery import running_gateways
from tests.support.paths import ROOT
from tests.support.waiting import eventually_sync

START_SECONDS = 180.0

Serve = Callable[..., "Server"]


class Server:
    """A gateway process, with what it wrote."""

    files: int | None = None
    """How many it may have open."""

    def __init__(self, settings: Settings, log: Path, *options: str, **environment: str) -> None:
        self.settings = settings
        self.log = log
        self._options = options
        self.environment = {"AGENCY_NAMESPACE": settings.namespace, "AGENCY_HIBERNATE_AFTER": "60", **environment}
        self._begin("0")

    def _begin(self, port: str) -> None:
        command = [sys.executable, "-m", "dashboard.command", "serve", self.settings.system]
        command += ["--port", port, "--data-dir", str(self.settings.data_dir), *self._options]
        with self.log.open("ab") as out:
            environment = {**os.environ, **self.environment}
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=out, stderr=out, preexec_fn=self._limit_files
            )
        self.url = self._until_announced()

    def _limit_files(self) -> None:
        if self.files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.files, self.files))

    def _until_announced(self) -> str:
        def announced() -> str | None:
            assert self.process.poll() is None, "it has ended"
            return next(
                (note.url for note in running_gateways(self.settings.data_dir) if note.pid == self.process.pid), None
            )

        try:
            return eventually_sync(announced, START_SECONDS) or ""
        except AssertionError as error:
            self.kill()
            raise AssertionError(f"the gateway did not start: {error}\n{self.log.read_text()}") from None

    @property
    def ws(self) -> str:
        return self.url.replace("http://", "ws://")

    def client(self, **headers: str) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        """Begin again at the same address."""
        self._begin(self.url.rpartition(":")[2])

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)
