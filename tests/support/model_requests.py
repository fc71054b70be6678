"""One request to a model, without a thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agency import Message, ModelParams, ModelReply, ModelRequest, ToolSpec
from agency.models.interface import Model
from agency.models.providers import STOCK, open_provider
from agency.models.providers.entry import ApiName, Provider

PATIENCE = 20.0


MODELS = {"openai": "openai:gpt-scripted", "anthropic": "anthropic:claude-scripted"}


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


def api_of(provider: str) -> ApiName:
    return "openai" if provider == "openai" else "anthropic"


def said_by(reply: ModelReply) -> Message:
    """A reply as it is in the conversation afterwards."""
    return Message(role="assistant", content=reply.text, tool_calls=reply.tool_calls, meta=reply.meta)
