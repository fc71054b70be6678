"""The providers that come with the library, by the word before the colon in a model's name.

Each is a `Model` on top of the provider's own SDK. Keys and addresses come from the SDK's own variables. An SDK is
imported when it is first used, because that takes a second or two. One provider serves the whole process, so that all
its threads share connections.
"""

from __future__ import annotations

from collections.abc import Mapping

from agency.models import Model
from agency.providers.anthropic import AnthropicModel
from agency.providers.openai import OpenAIModel

STOCK: Mapping[str, Model] = {"openai": OpenAIModel(), "anthropic": AnthropicModel()}
