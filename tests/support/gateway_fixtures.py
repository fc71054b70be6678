"""Clients of the shared gateways, and an agency of one's own there: the fixtures of the folders that talk HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from actors import Settings
from tests.support.gateways import Server

SECRET = "open sesame, büro 7"
SIGNING = "signing-4711"
"""The secret by which `guarded` verifies letters to the guest book."""


@pytest.fixture
def http(gateway: Server) -> Iterator[httpx.Client]:
    with gateway.client() as client:
        yield client


@pytest.fixture
def agency(http: httpx.Client) -> str:
    """A new agency's id."""
    return str(http.post("/agencies", json={"name": "bakery"}).json()["id"])


@pytest.fixture(scope="session")
def guarded(ray_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A gateway with a secret, in front of the same installation, which can verify letters to the guest book."""
    environment = {"AGENCY_SECRET": SECRET, "AGENCY_BEAT": "0.3", "AGENCY_KEY_GUESTS": SIGNING}
    server = Server(ray_settings, tmp_path_factory.mktemp("guarded") / "log", **environment)
    yield server
    server.stop()


@pytest.fixture
def owner(guarded: Server) -> Iterator[httpx.Client]:
    """Who has the secret of `guarded`."""
    with httpx.Client(base_url=guarded.url, headers={b"X-SECRET": SECRET.encode()}, timeout=60) as client:
        yield client
