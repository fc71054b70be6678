"""What a call costs: by the entry's own prices, else by those that genai-prices has published. Unknown is not free.

The package takes a third of a second to import, so it is imported when a price is first asked for. It asks nobody over
the network: its prices are those of its version.
"""

from __future__ import annotations

import importlib

from agency.messages import Usage
from agency.providers.entry import Price, Provider

_MILLION = 1_000_000


def prepare() -> None:
    importlib.import_module("genai_prices.data")


def cost(entry: Provider, model: str, usage: Usage) -> float | None:
    """US dollars; None where the price is not known, or the provider did not say what was used."""
    if not usage.total:
        return None
    own = entry.prices.get(model)
    return _own(own, usage) if own is not None else _published(entry, model, usage)


def _own(price: Price, usage: Usage) -> float:
    cached = price.input if price.cached_input is None else price.cached_input
    written = price.input if price.cache_write is None else price.cache_write
    fresh = max(0, usage.input - usage.cached_input - usage.cache_write)
    total = fresh * price.input + usage.cached_input * cached + usage.cache_write * written
    return (total + usage.output * price.output) / _MILLION


def _published(entry: Provider, model: str, usage: Usage) -> float | None:
    from genai_prices import Usage as Counted
    from genai_prices import calc_price

    counted = Counted(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cached_input,
        cache_write_tokens=usage.cache_write,
    )
    try:
        if entry.priced_as is None and entry.base_url is not None:
            return float(calc_price(counted, model, provider_api_url=entry.base_url).total_price)
        return float(calc_price(counted, model, provider_id=entry.priced_as or entry.api).total_price)
    except (LookupError, ValueError):  # nobody has published it, or what was counted makes no sense
        return None
