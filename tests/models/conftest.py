"""What the tests of providers share: a scripted server that both SDKs find, and a model to ask directly."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from agency import Message, ModelParams, ModelReply, ModelRequest, ToolSpec
from agency.models.interface import Model
from agency.models.providers import STOCK, open_provider
from agency.models.providers.entry import Api, Provider
from tests.models.server import ModelServer

PATIENCE = 20.0
MODELS = {"openai": "openai:gpt-scripted", "anthropic": "anthropic:claude-scripted"}


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


async def ask(
    provider: str,
    messages: str | Sequence[Message] = "Hello?",
    *,
    system: str = "Be brief.",
    tools: Sequence[ToolSpec] = (),
    heard: list[str] | None = None,
    entry: Provider | None = None,
    at: Model | None = None,
    model: str | None = None,
    **params: Any,
) -> ModelReply:
    """One request, without a thread. `heard` gets the text as it comes; with an `entry`, or `at` a
    model, that one is asked."""
    said = [Message(role="user", content=messages)] if isinstance(messages, str) else messages
    request = ModelRequest(
        model=model or MODELS[provider].partition(":")[2],
        system=system,
        messages=said,
        tools=tuple(tools),
        params=ModelParams(**params),
        key="thr.1.2",
    )
    asked = at or (STOCK[provider] if entry is None else open_provider(provider, entry))
    return await asked.respond(request, ([] if heard is None else heard).append)


def api_of(provider: str) -> Api:
    return "openai" if provider == "openai" else "anthropic"


def said_by(reply: ModelReply) -> Message:
    """A reply as it is in the conversation afterwards."""
    return Message(role="assistant", content=reply.text, tool_calls=reply.tool_calls, meta=reply.meta)
