"""What tests of every folder share. Tests with Ray keep away from any Ray that runs on this machine, and leave nothing
behind."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors import Settings
from actors.cluster import local_ray
from tests.support.gateways import Serve, Server
from tests.support.paths import ROOT
from tests.support.tiers import MARKS, mark_tiers, print_repeats


def pytest_configure(config: pytest.Config) -> None:
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    os.environ["RAY_TMPDIR"] = tempfile.mkdtemp(prefix="agency-tests-", dir="/tmp")  # a socket's path must be short


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(os.environ.pop("RAY_TMPDIR"), ignore_errors=True)


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups when the items are collected
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_tiers(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    print_repeats(terminalreporter)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Where tools note what they do."""
    path = tmp_path / "ledger"
    path.touch()
    return path


@pytest.fixture(scope="session")
def ray_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings with which to join the Ray that all tests share."""
    folder = tmp_path_factory.mktemp("installation")
    settings = Settings(
        system="tests.support.scripted_system:system",
        python_path=(str(ROOT),),
        data_dir=folder,
        namespace=f"shared-{secrets.token_hex(4)}",
        hibernate_after=60,
    )
    yield settings
    local_ray.stop(folder)


@pytest.fixture(scope="session")
def gateway(ray_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The gateway that most tests share, without a secret; each test makes an agency of its own."""
    server = Server(ray_settings, tmp_path_factory.mktemp("gateway") / "log")
    yield server
    server.stop()


@pytest.fixture
def serve(ray_settings: Settings, tmp_path: Path) -> Iterator[Serve]:
    """Start a gateway of one's own, beside the shared one."""
    made: list[Server] = []

    def start(*options: str, **environment: str) -> Server:
        made.append(Server(ray_settings, tmp_path / f"gateway-{len(made)}.log", *options, **environment))
        return made[-1]

    yield start
    for server in made:
        server.kill()  # which takes no time; that one stops well when it is asked to is seen where it is tested
