"""Entries that an agency has set for itself cannot keep a provider from saying what it used."""

from __future__ import annotations

from typing import Any

import pytest

from agency.key_rules import OutgoingRules
from agency.models.interface import ModelParams, ModelRequest
from agency.models.providers.entry import GuardedProvider, Provider
from agency.models.providers.model import ProviderModel

REQUEST = ModelRequest(model="m", system="", messages=[], tools=(), params=ModelParams(), key="k")
TAKEN_AWAY = [None, {}, {"include_usage": False}, "none"]


def sent(entry: Provider) -> Any:
    return ProviderModel("mine", entry).http(REQUEST).body


def guarded(**fields: Any) -> Provider:
    return GuardedProvider.model_validate({"api": "openai", "agency": "a", "outgoing": OutgoingRules(), **fields})


@pytest.mark.parametrize("said", TAKEN_AWAY)
def test_the_usage_of_a_reply_is_asked_for_whatever_the_body_says(said: Any) -> None:
    body = {"stream_options": said, "top_k": 4}
    assert sent(guarded(body=body)) == {**sent(guarded()), "top_k": 4}
    assert sent(guarded())["stream_options"] == {"include_usage": True}


def test_what_the_owner_has_set_is_sent_as_it_is() -> None:
    entry = Provider(api="openai", base_url="http://127.0.0.1:9/v1", body={"stream_options": None})
    assert "stream_options" not in sent(entry)


def test_messages_always_say_their_usage() -> None:
    assert "stream_options" not in sent(guarded(api="anthropic", body={"stream_options": None}))
