"""Prices: what an answer costs at the list price of its provider, by the package `genai-prices`.

The package has the prices in itself. Invariant: nothing is read from the network. The package is
an optional dependency, and slow to import: only `load` imports it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from sessiontree.core.usage import Mode
from sessiontree.operations.spending import Spent

HOW_TO_GET: Final = "pip install 'sessiontree[prices]'"


_FAST: Final = Mode("speed", "fast")

_TIMES: Final = (("claude-opus-4-6", 6), ("claude-opus-4-7", 6))
"""How many times the usual price Anthropic took for the fast mode of models that lost it.

The package does not have these prices.
"""

_OF_AMAZON: Final = re.compile(r"(?:[a-z-]+\.)?anthropic\.")
"""How the names of Anthropic's models begin at Amazon Bedrock, which has its own prices."""


class Prices:
    """The list prices of models."""

    def __init__(self, calculate: Callable[..., Any], usage: Callable[..., Any], name: str) -> None:
        self._calculate = calculate
        self._usage = usage
        self.name = name

    def of(self, spent: Spent) -> float | None:
        """The price in US dollars at the time of an answer; None if none is known."""
        usual = self._price(spent, spent.time)
        if spent.mode is None or not usual:
            return usual
        price = self._price(spent, spent.time, spent.mode)
        return price if price != usual else usual * self._times(spent)

    def _times(self, spent: Spent) -> float:
        """How many times the usual price an answer costs whose mode has no price at its time.

        The package has the prices of many modes from a day on alone, and of some not at all.
        """
        usual, price = self._price(spent, None), self._price(spent, None, spent.mode)
        if usual and price and price != usual:
            return price / usual
        is_fast = spent.mode == _FAST
        return next((n for name, n in _TIMES if is_fast and spent.model.startswith(name)), 1)

    def _price(self, spent: Spent, time: datetime | None, mode: Mode | None = None) -> float | None:
        """The price at a time; None: now."""
        if not spent.model:
            return None
        try:
            found = self._calculate(
                self._usage(**_tokens(spent)),
                spent.model,
                provider_id=spent.provider or _provider_of(spent.model),
                genai_request_timestamp=time,
                price_context=mode and {mode.key: mode.value},
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


def _provider_of(model: str) -> str | None:
    return "aws" if _OF_AMAZON.match(model) else None


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
