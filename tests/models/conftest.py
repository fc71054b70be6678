"""What the tests of providers share: a scripted server that both SDKs find, and a model to ask directly."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.model_requests import MODELS
from tests.support.model_server import ModelServer


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture(params=sorted(MODELS))
def provider(request: pytest.FixtureRequest) -> str:
    """For what both providers promise."""
    return str(request.param)
