"""Hosts of models that many people use, by name: an agent on `groq:…` needs `GROQ_API_KEY`, and nothing else.

Each speaks Chat Completions at an address of its own. Where the address is the user's (Azure, Bedrock's region, a
server on this machine), it comes from the variable that the host's own tools read. Variables are read when a model is
asked, not when this is imported: hosts of threads get theirs later. An entry of the same name, in code or settings,
goes before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import get_args

from agency.messages import Usage
from agency.models.interface import Capability, ModelRequest, OnDelta
from agency.models.providers import pricing
from agency.models.providers.entry import Provider
from agency.models.providers.failures import failure
from agency.models.providers.model import ProviderModel
from agency.turn.effects import ModelReply

_ALL: frozenset[Capability] = frozenset(get_args(Capability))


@dataclass(frozen=True, slots=True)
class KnownHost:
    address: str | Callable[[], str | None]
    """Where it is; None if a variable is missing that says so."""
    key: str | None
    """The variable with its key; None if it wants none."""
    priced_as: str | None = None
    needs_key: bool = True
    old_limit: bool = False
    """Whether it knows only `max_tokens`."""
    variable: str = ""
    """The variable with the user's own address."""


def _azure() -> str | None:
    given = os.environ.get("AZURE_OPENAI_ENDPOINT", "").rstrip("/")
    return f"{given.removesuffix('/openai/v1')}/openai/v1" if given else None


def _bedrock() -> str:
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return f"https://bedrock-runtime.{region}.amazonaws.com/openai/v1"


def _ollama() -> str:
    given = (os.environ.get("OLLAMA_HOST") or "localhost").rstrip("/").replace("0.0.0.0", "localhost")
    whole = given if "://" in given else f"http://{given}"
    port = "" if ":" in whole.partition("://")[2] or whole.startswith("https") else ":11434"
    return f"{whole}{port}/v1"


def _vllm() -> str:
    return os.environ.get("VLLM_BASE_URL") or "http://localhost:8000/v1"


HOSTS: Mapping[str, KnownHost] = {
    "azure": KnownHost(_azure, "AZURE_OPENAI_API_KEY", "azure", variable="AZURE_OPENAI_ENDPOINT"),
    "bedrock": KnownHost(_bedrock, "AWS_BEARER_TOKEN_BEDROCK", "aws", variable="AWS_REGION"),
    "deepseek": KnownHost("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "deepseek", old_limit=True),
    "gemini": KnownHost(
        "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY", "google", old_limit=True
    ),
    "groq": KnownHost("https://api.groq.com/openai/v1", "GROQ_API_KEY", "groq"),
    "mistral": KnownHost("https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral", old_limit=True),
    "ollama": KnownHost(_ollama, None, old_limit=True, variable="OLLAMA_HOST"),
    "openrouter": KnownHost("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "openrouter", old_limit=True),
    "vllm": KnownHost(_vllm, "VLLM_API_KEY", needs_key=False, variable="VLLM_BASE_URL"),
    "xai": KnownHost("https://api.x.ai/v1", "XAI_API_KEY", "x-ai"),
}


def entry_of(host: KnownHost) -> Provider | None:
    """The entry that a user would write; None if it is not known where the host is."""
    address = host.address if isinstance(host.address, str) else host.address()
    if address is None:
        return None
    with_key = host.key is not None and (host.needs_key or bool(os.environ.get(host.key)))
    return Provider(
        api="openai",
        base_url=address,
        key=f"env:{host.key}" if with_key else None,
        max_tokens_field="max_tokens" if host.old_limit else "max_completion_tokens",
        priced_as=host.priced_as,
    )


class HostModel:
    """The model behind a named host. It is made when it is first asked, and again if its address has changed."""

    def __init__(self, name: str, host: KnownHost) -> None:
        self._name = name
        self._host = host
        self._made: tuple[Provider, ProviderModel] | None = None

    def capabilities(self, model: str) -> frozenset[Capability]:
        return _ALL

    def cost(self, model: str, usage: Usage) -> float | None:
        entry = entry_of(self._host)
        return None if entry is None else pricing.cost(entry, model, usage)

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        return await self._model().respond(request, on_delta)

    def _model(self) -> ProviderModel:
        entry = entry_of(self._host)
        if entry is None:
            raise failure("ERR_AUTH", f"it is not known where {self._name} is: set {self._host.variable}")
        if self._made is None or self._made[0] != entry:
            self._made = (entry, ProviderModel(self._name, entry))
        return self._made[1]
