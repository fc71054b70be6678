"""The gateways of the dashboard's tests, for those of its client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agency.client import Agency, Client
from tests.actors.conftest import ledger
from tests.dashboard.conftest import Server, gateway, serve

__all__ = ["agency", "client", "gateway", "ledger", "serve"]


@pytest.fixture
def client(gateway: Server) -> Iterator[Client]:
    with Client(gateway.url) as client:
        yield client


@pytest.fixture
def agency(client: Client) -> Agency:
    return client.create_agency("bakery")
