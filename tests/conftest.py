"""Tests with Ray keep away from any Ray that runs on this machine, and leave nothing behind."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator

import pytest

from actors import Settings
from actors.cluster import local_ray
from tests.gateways import ROOT as ROOT
from tests.gateways import gateway as gateway
from tests.gateways import serve as serve


def pytest_configure(config: pytest.Config) -> None:
    os.environ["RAY_TMPDIR"] = tempfile.mkdtemp(prefix="agency-tests-", dir="/tmp")  # a socket's path must be short


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(os.environ.pop("RAY_TMPDIR"), ignore_errors=True)


@pytest.fixture(scope="session")
def ray_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings with which to join the Ray that all tests share."""
    folder = tmp_path_factory.mktemp("installation")
    settings = Settings(
        system="tests.actors.shop:system",
        python_path=(str(ROOT),),
        data_dir=folder,
        namespace=f"shared-{secrets.token_hex(4)}",
        hibernate_after=60,
    )
    yield settings
    local_ray.stop(folder)
