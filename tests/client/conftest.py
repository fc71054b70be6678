"""A client of the shared gateway, and an agency of one's own there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agency.client import Agency, Client
from tests.support.gateways import Server


@pytest.fixture
def client(gateway: Server) -> Iterator[Client]:
    with Client(gateway.url) as client:
        yield client


@pytest.fixture
def agency(client: Client) -> Agency:
    return client.create_agency("bakery")
