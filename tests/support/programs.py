"""Programs of other people that serve a system: uvicorn runs them, on the installation that tests share."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from actors import Settings
from tests.support.gateways import Server
from tests.support.paths import ROOT
from tests.support.waiting import eventually_sync

Program = Callable[..., str]
"""Start one of the apps of `exported_apps`, given where it is mounted; its address."""


@pytest.fixture
def program(gateway: Server, ray_settings: Settings, tmp_path: Path) -> Iterator[Program]:
    """Have uvicorn run one of the programs on the installation that tests share; its address."""
    running: list[subprocess.Popen[bytes]] = []

    def start(app: str, path: str = "", **environment: str) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "uvicorn", f"tests.support.exported_apps:{app}", "--port", str(port)]
        env = {**os.environ, **environment_of(ray_settings), **environment}
        log = tmp_path / f"{app}.log"
        with log.open("wb") as out:
            running.append(subprocess.Popen(command, cwd=ROOT, env=env, stdout=out, stderr=out))
        url = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            assert running[-1].poll() is None, log.read_text()
            try:
                return httpx.get(f"{url}{path}/healthz", timeout=60).status_code == 200
            except httpx.TransportError:
                return False

        eventually_sync(answers, 90)
        return url

    yield start
    for each in running:
        each.send_signal(signal.SIGTERM)
        assert each.wait(30) in (0, -signal.SIGTERM)  # uvicorn stops well, and raises the signal again


def environment_of(settings: Settings) -> dict[str, str]:
    return {
        "AGENCY_NAMESPACE": settings.namespace,
        "AGENCY_DATA_DIR": str(settings.data_dir),
        "AGENCY_HIBERNATE_AFTER": "60",
    }
