"""What a call costs: our own prices, the published ones, and what is not known."""

from __future__ import annotations

from typing import Any

import pytest
from genai_prices import Usage as Counted
from genai_prices import calc_price

from agency import Usage
from agency.key_rules import OutgoingRules
from agency.models.interface import Described
from agency.models.providers import STOCK, open_provider
from agency.models.providers.entry import GuardedProvider, Price, Provider

USED = Usage(input=10_000, output=2_000, cached_input=6_000, cache_write=3_000, reasoning=500)
COUNTED = Counted(input_tokens=10_000, output_tokens=2_000, cache_read_tokens=6_000, cache_write_tokens=3_000)


def cost(entry: Provider, model: str, usage: Usage = USED) -> float | None:
    opened = open_provider("mine", entry)
    assert isinstance(opened, Described)
    return opened.cost(model, usage)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-4o"),
        ("openai", "gpt-5-mini"),
        ("openai", "o3"),
        ("anthropic", "claude-sonnet-4-5"),
        ("anthropic", "claude-opus-4-6"),
        ("anthropic", "claude-haiku-4-5-20251001"),
    ],
)
def test_published_prices_are_those_of_the_package(provider: str, model: str) -> None:
    stock = STOCK[provider]
    assert isinstance(stock, Described)
    published = calc_price(COUNTED, model, provider_id=provider).total_price
    assert published > 0
    assert stock.cost(model, USED) == pytest.approx(float(published), abs=1e-12)


@pytest.mark.parametrize(
    ("entry", "provider_id", "model"),
    [
        (Provider(api="openai", base_url="https://openrouter.ai/api/v1"), "openrouter", "openai/gpt-4o"),
        (Provider(api="openai", base_url="http://127.0.0.1:1/v1", priced_as="openai"), "openai", "gpt-4o"),
        (Provider(api="anthropic"), "anthropic", "claude-sonnet-4-5"),
    ],
)
def test_whose_prices_count_follows_from_the_entry(entry: Provider, provider_id: str, model: str) -> None:
    published = calc_price(COUNTED, model, provider_id=provider_id).total_price
    assert cost(entry, model) == pytest.approx(float(published), abs=1e-12)


@pytest.mark.parametrize(
    ("price", "expected"),
    [
        (Price(input=2, output=10, cached_input=0.5, cache_write=4), (1 * 2 + 6 * 0.5 + 3 * 4 + 2 * 10) / 1000),
        (Price(input=2, output=10), (10 * 2 + 2 * 10) / 1000),
        (Price(input=2, output=10, cached_input=0), (4 * 2 + 2 * 10) / 1000),
        (Price(input=0, output=0), 0.0),
    ],
)
def test_our_own_prices_go_before_the_published_ones(price: Price, expected: float) -> None:
    assert cost(Provider(api="openai", prices={"gpt-4o": price}), "gpt-4o") == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("entry", "model", "usage"),
    [
        (Provider(api="openai"), "no-such-model", USED),
        (Provider(api="openai", base_url="https://models.example.com/v1"), "gpt-4o", USED),
        (Provider(api="openai", priced_as="nobody"), "gpt-4o", USED),
        (Provider(api="openai", prices={"other": Price(input=1, output=1)}), "no-such-model", USED),
        (Provider(api="openai"), "gpt-4o", Usage(input=5, cached_input=50)),  # nonsense
        (Provider(api="openai"), "gpt-4o", Usage()),  # the server has counted nothing
        (Provider(api="openai", prices={"m": Price(input=1, output=1)}), "m", Usage()),
    ],
)
def test_what_is_not_known_is_not_free(entry: Provider, model: str, usage: Usage) -> None:
    assert cost(entry, model, usage) is None


PRIVATE = [
    "http://127.0.0.1:1/v1",
    "http://localhost:11434/v1",
    "http://10.1.2.3/v1",
    "http://192.168.0.7:8000/v1",
    "http://[::1]:8000/v1",
    "http://ollama:11434/v1",
    "http://gpu.local/v1",
]


@pytest.mark.parametrize("address", PRIVATE)
@pytest.mark.parametrize("usage", [USED, Usage()])
def test_a_model_on_a_private_address_is_free_without_a_price(address: str, usage: Usage) -> None:
    assert cost(Provider(api="openai", base_url=address), "gpt-4o", usage) == 0.0


def test_a_price_counts_on_a_private_address_too() -> None:
    ours = Provider(api="openai", base_url=PRIVATE[0], prices={"m": Price(input=2, output=10)})
    theirs = Provider(api="openai", base_url=PRIVATE[0], priced_as="openai")
    assert cost(ours, "m") == pytest.approx((10 * 2 + 2 * 10) / 1000)
    assert cost(theirs, "gpt-4o") == cost(Provider(api="openai"), "gpt-4o")


@pytest.mark.parametrize(
    "address", ["https://8.8.8.8/v1", "https://models.example.com/v1", "https://10.example.com/v1"]
)
def test_a_public_address_is_not_private(address: str) -> None:
    assert not Provider(api="openai", base_url=address).is_private


# An agency's own word.


def of_agency(**fields: Any) -> float | None:
    entry = GuardedProvider.model_validate({"api": "openai", "agency": "agc_1", "outgoing": OutgoingRules(), **fields})
    return cost(entry, "gpt-4o")


KEY = "env:AGENCY_KEY_X"
FREE = {"gpt-4o": Price(input=0, output=0)}
PUBLISHED = float(calc_price(COUNTED, "gpt-4o", provider_id="openai").total_price)


def test_an_agency_cannot_make_a_call_cheaper_than_it_is_known_to_be() -> None:
    at_openai = {"base_url": "https://api.openai.com/v1", "key": KEY}
    for where in ({"key": KEY}, at_openai):
        for said in ({}, {"prices": FREE}, {"priced_as": "groq"}):
            assert of_agency(**where, **said) == pytest.approx(PUBLISHED)
    dear = {"gpt-4o": Price(input=1_000, output=1_000)}
    assert of_agency(**at_openai, prices=dear) == pytest.approx(12.0)


def test_where_no_price_is_known_an_agencys_counts_if_it_shows_no_key() -> None:
    own = "https://models.bakery.example/v1"
    assert of_agency(base_url=own, prices=FREE) == 0.0
    assert of_agency(base_url=own, prices=FREE, key=KEY) is None
    assert of_agency(base_url=own, prices=FREE, headers={"X-Team": KEY}) is None
    assert of_agency(base_url="http://10.0.0.7/v1", key=KEY) == 0.0, "the operator lets it be there"
