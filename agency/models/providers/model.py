"""A provider entry as a model: whichever API it speaks, its keys, its prices, what it can do.

All threads of a process that use an entry share one of these, and so its connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol, get_args
from weakref import WeakKeyDictionary

from agency.messages import Usage
from agency.models.interface import Capability, ModelParams, ModelRequest, OnDelta, OneTool
from agency.models.providers import pricing
from agency.models.providers.anthropic import Messages
from agency.models.providers.entry import GuardedProvider, Provider, sent_secret
from agency.models.providers.failures import Account, ModelExchange, failure
from agency.models.providers.openai import ChatCompletions
from agency.models.reproduce import HttpRequest
from agency.secrets import NoSecret, is_reference, remember
from agency.turn.effects import ModelReply

NO_KEY = "none"
"""What is sent to a server of one's own that wants no key: the SDKs insist on one."""

_ALL: frozenset[Capability] = frozenset(get_args(Capability))


class Api(Protocol):
    """One of the two APIs. Its client belongs to its SDK and is not shared."""

    def sdk(self) -> ModuleType: ...

    async def client(self, key: str | None, headers: Mapping[str, str]) -> Any: ...

    def secrets(self, client: Any) -> Sequence[str | None]: ...

    def http(self, request: ModelRequest) -> HttpRequest: ...

    async def ask(
        self, client: Any, request: ModelRequest, exchange: ModelExchange, on_delta: OnDelta
    ) -> ModelReply: ...


@dataclass(frozen=True, slots=True)
class Unlocked:
    """What an entry's references refer to, now. Without a key, the SDK looks for one."""

    key: str | None
    headers: Mapping[str, str]


class ProviderModel:
    def __init__(self, name: str, entry: Provider) -> None:
        kind = ChatCompletions if entry.api == "openai" else Messages
        own = entry.own_address is not None
        key = entry.key or (f"the key of {name}" if own else kind.key_variable)
        address = f"the base URL of {name}" if own else kind.address_variable
        self._entry = entry
        self._account = Account(name, key=key, address=address)
        self._prepared = False
        self._api: Api = kind(entry, self._account)
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Unlocked, Any]] = WeakKeyDictionary()

    def prepare(self) -> None:
        self._api.sdk()
        pricing.prepare()
        self._prepared = True

    def capabilities(self, model: str) -> frozenset[Capability]:
        return _ALL if self._entry.capabilities is None else frozenset(self._entry.capabilities)

    def cost(self, model: str, usage: Usage) -> float | None:
        return pricing.cost(self._entry, model, usage)

    def http(self, request: ModelRequest) -> HttpRequest:
        """What `respond` posts, with names of variables in the place of keys."""
        return self._api.http(request)

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        _check(request)
        if not self._prepared:  # that takes a second or two, and there are others to serve meanwhile
            await asyncio.to_thread(self.prepare)
        sdk, unlocked = self._api.sdk(), self._unlocked()
        client = await self._client(unlocked)
        hidden = [unlocked.headers[name] for name, said in self._entry.headers.items() if is_reference(said)]
        with self._account.failures(sdk, (*self._api.secrets(client), *hidden)) as exchange:
            try:
                return await self._api.ask(client, request, exchange, on_delta)
            finally:
                request.meter.usage = exchange.usage

    async def _client(self, unlocked: Unlocked) -> Any:
        """The client of the running loop: little more than a name for the connections that all share."""
        loop = asyncio.get_running_loop()
        held = self._clients.get(loop)
        if held is None or held[0] != unlocked:
            client = await self._api.client(unlocked.key, unlocked.headers)
            if client is None:
                raise self._account.no_key(f"set {self._account.key}")
            for value in self._api.secrets(client):  # a tool may come across it in its environment
                remember(value)
            held = self._clients[loop] = (unlocked, client)
        return held[1]

    def _unlocked(self) -> Unlocked:
        entry = self._entry
        missing = NO_KEY if entry.own_address is not None else None
        try:
            if isinstance(entry, GuardedProvider):
                entry.check_keys()
            return Unlocked(sent_secret(entry.key) if entry.key is not None else missing, entry.sent_headers())
        except NoSecret as error:
            raise self._account.no_key(str(error)) from None


def _check(request: ModelRequest) -> None:
    params: ModelParams = request.params
    if isinstance(params.tool_choice, OneTool) and params.tool_choice.name not in {tool.name for tool in request.tools}:
        raise failure(
            "ERR_BAD_REQUEST", f"the model must call {params.tool_choice.name!r}, but is offered no such tool"
        )
