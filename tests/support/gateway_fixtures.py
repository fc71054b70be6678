"""A client of the shared gateway, and an agency of one's own there: the fixtures of the folders that talk HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.support.gateways import Server


@pytest.fixture
def http(gateway: Server) -> Iterator[httpx.Client]:
    with gateway.client() as client:
        yield client


@pytest.fixture
def agency(http: httpx.Client) -> str:
    """A new agency's id."""
    return str(http.post("/agencies", json={"name": "bakery"}).json()["id"])
