"""Prices: what an answer costs at the list price of its provider, by the package `genai-prices`.

The package has the prices in itself. Invariant: nothing is read from the network. The package is
an optional dependency, and slow to import: only `load` imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sessiontree.operations.spending import Spent

HOW_TO_GET: Final = "pip install 'sessiontree[prices]'"


class Prices:
    """The list prices of models."""

    def __init__(self, calculate: Callable[..., Any], usage: Callable[..., Any], name: str) -> None:
        self._calculate = calculate
        self._usage = usage
        self.name = name

    def of(self, spent: Spent) -> float | None:
        """The price in US dollars at the time of an answer; None if none is known."""
        if not spent.model:
            return None
        try:
            found = self._calculate(
                self._usage(**_tokens(spent)),
                spent.model,
                provider_id=spent.provider,
                genai_request_timestamp=spent.time,  # None: now
            )
        except (LookupError, ValueError):  # an unknown model; tokens of a kind without a price
            return None
        has_price = any(price is not None for price in vars(found.model_price).values())
        return float(found.total_price) if has_price else None


def load() -> Prices | None:
    """The prices of the installed package; None if it is not installed."""
    try:
        import genai_prices
    except ImportError:
        return None
    name = f"genai-prices {genai_prices.__version__}"
    return Prices(genai_prices.calc_price, genai_prices.Usage, name)


def _tokens(spent: Spent) -> dict[str, int]:
    """The tokens as the package counts them: the input includes what a cache keeps."""
    used, long = spent.usage, spent.written_for_an_hour
    tokens = {
        "input_tokens": used.input + used.cache_read + used.cache_write,
        "output_tokens": used.output,
        "cache_read_tokens": used.cache_read,
        "cache_write_tokens": used.cache_write,
        "cache_write_1h_tokens": long,
        "cache_write_5m_tokens": used.cache_write - long if long else 0,
    }
    return {name: count for name, count in tokens.items() if count}
