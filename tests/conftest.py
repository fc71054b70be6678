"""Tests with Ray keep away from any Ray that runs on this machine, and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest


def pytest_configure(config: pytest.Config) -> None:
    os.environ["RAY_TMPDIR"] = tempfile.mkdtemp(prefix="agency-tests-", dir="/tmp")  # a socket's path must be short


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(os.environ.pop("RAY_TMPDIR"), ignore_errors=True)
