"""What a call costs: by the entry's own prices, else by those that genai-prices has published. Unknown is not free, but
a model on a private address is: it runs on a machine of one's own.

The package takes a third of a second to import, so it is imported when a price is first asked for. It makes no
network request: its prices are those of its version.
"""

from __future__ import annotations

import importlib
from functools import lru_cache

from agency.messages import Usage
from agency.models.providers.entry import GuardedProvider, Price, Provider

_MILLION = 1_000_000


def prepare() -> None:
    importlib.import_module("genai_prices.data")


def cost(entry: Provider, model: str, usage: Usage) -> float | None:
    """US dollars; None where the price is not known, or the provider did not say what was used."""
    said = _said(entry, model, usage)
    return _known(entry, model, usage, said) if isinstance(entry, GuardedProvider) else said


def _known(entry: GuardedProvider, model: str, usage: Usage, said: float | None) -> float | None:
    """An agency's own word never makes a call cheaper than it is known to be, so that it cannot stretch a budget. Where
    nothing is known, it counts for servers to which the agency shows no key of the installation."""
    plain = Provider(api=entry.api, base_url=entry.base_url)
    published = _published(plain, model, usage) if usage.total else None
    if published is not None:
        return published if said is None else max(published, said)
    return said if entry.is_private or not entry.references else None


def _said(entry: Provider, model: str, usage: Usage) -> float | None:
    own = entry.prices.get(model)
    if own is None and entry.priced_as is None and entry.is_private:
        return 0.0
    if not usage.total:
        return None
    return _own(own, usage) if own is not None else _published(entry, model, usage)


def _own(price: Price, usage: Usage) -> float:
    cached = price.input if price.cached_input is None else price.cached_input
    written = price.input if price.cache_write is None else price.cache_write
    fresh = max(0, usage.input - usage.cached_input - usage.cache_write)
    total = fresh * price.input + usage.cached_input * cached + usage.cache_write * written
    return (total + usage.output * price.output) / _MILLION


def _published(entry: Provider, model: str, usage: Usage) -> float | None:
    address = entry.base_url if entry.priced_as is None else None
    seller = None if address is not None else entry.priced_as or entry.api
    if not _is_published(seller, address, model):
        return None
    try:
        return _by_the_package(seller, address, model, usage)
    except ValueError:  # what was counted makes no sense
        return None


@lru_cache(maxsize=1_000)
def _is_published(seller: str | None, address: str | None, model: str) -> bool:
    """The package forgets what it has not found, and looks through all it has again."""
    try:
        _by_the_package(seller, address, model, Usage())
    except LookupError:
        return False
    return True


def _by_the_package(seller: str | None, address: str | None, model: str, usage: Usage) -> float:
    from genai_prices import Usage as Counted
    from genai_prices import calc_price

    counted = Counted(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cached_input,
        cache_write_tokens=usage.cache_write,
    )
    if address is not None:
        return float(calc_price(counted, model, provider_api_url=address).total_price)
    return float(calc_price(counted, model, provider_id=seller).total_price)
