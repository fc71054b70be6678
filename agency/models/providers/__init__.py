"""The providers that come with the library, by the word before the colon in a model's name, and whatever else is at an
address of one's own.

Each is a `Model` on top of an SDK: OpenAI's or Anthropic's. An SDK is imported when it is first used, because that
takes a second or two. One provider serves the whole process, so that all its threads share connections.
"""

from __future__ import annotations

from collections.abc import Mapping

from agency.models.interface import Model
from agency.models.providers.anthropic import Messages
from agency.models.providers.entry import Provider
from agency.models.providers.hosts import HOSTS, HostModel
from agency.models.providers.model import ProviderModel
from agency.models.providers.openai import ChatCompletions
from agency.secrets import Secret


def open_provider(name: str, entry: Provider) -> Model:
    """The model behind an entry. It connects when it is first asked."""
    return ProviderModel(name, entry)


STOCK: Mapping[str, Model] = {
    "openai": open_provider("openai", Provider(api="openai")),
    "anthropic": open_provider("anthropic", Provider(api="anthropic")),
    **{name: HostModel(name, host) for name, host in HOSTS.items()},
}
"""Their keys and addresses come from variables: the SDKs' own, or those of the named hosts."""

STOCK_KEYS: Mapping[str, Secret] = {
    "openai": Secret(f"env:{ChatCompletions.key_variable}"),
    "anthropic": Secret(f"env:{Messages.key_variable}"),
    **{name: Secret(f"env:{host.key}") for name, host in HOSTS.items() if host.key is not None},
}
