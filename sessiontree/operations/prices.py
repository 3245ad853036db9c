"""Prices: what an answer costs at the list price of its provider, by the package `genai-prices`.

The package has the prices in itself. Invariant: nothing is read from the network. The package is
an optional dependency, and slow to import: only `load` imports it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
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
    """The list prices of models.

    The package takes a tenth of a millisecond for an answer. The price is linear in the tokens of
    each kind, for one model, time and tier: so it is asked once for each kind, with as many tokens.
    """

    def __init__(self, calculate: Callable[..., Any], usage: Callable[..., Any], name: str) -> None:
        self._calculate = calculate
        self._usage = usage
        self.name = name
        self._models: dict[tuple[str | None, str], Any] = {}
        self._rates: dict[tuple[int, int], _Rates | None] = {}
        self._kept: dict[int, Any] = {}  # so that the ids of these objects stay theirs

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
        name = spent.provider, spent.model
        if name in self._models and mode is None:
            rates = self._rates_of(spent, time)
            if rates is not None:
                return float(sum(rates[kind] * count for kind, count in _kinds(spent)))
        found = self._asked(spent, _tokens(spent), time, mode)
        self._models.setdefault(name, getattr(found, "model", None))
        if found is None or all(price is None for price in vars(found.model_price).values()):
            return None
        return float(found.total_price)

    def _asked(
        self, spent: Spent, tokens: dict[str, int], time: datetime | None, mode: Mode | None
    ) -> Any:
        """What the package calculates; None for a model or tokens without a price."""
        try:
            return self._calculate(
                self._usage(**tokens),
                spent.model,
                provider_id=spent.provider or _provider_of(spent.model),
                genai_request_timestamp=time,
                price_context=mode and {mode.key: mode.value},
            )
        except (LookupError, ValueError):
            return None

    def _rates_of(self, spent: Spent, time: datetime | None) -> _Rates | None:
        """The price of one token of each kind; None where that is not known."""
        model, total = self._models[spent.provider, spent.model], _input(spent)
        if model is None or not total:
            return None
        prices = model.get_prices(time or datetime.now(UTC))
        key = id(prices), sum(total > start for start in _starts(prices))
        if key not in self._rates:
            self._kept[id(prices)] = prices
            self._rates[key] = self._rates_at(spent, total, time)
        return self._rates[key]

    def _rates_at(self, spent: Spent, total: int, time: datetime | None) -> _Rates | None:
        rates: dict[str, Decimal] = {}
        for kind, names in _KINDS.items():
            tokens = dict.fromkeys(("input_tokens", *names), total)
            found = self._asked(spent, tokens, time, None)
            if found is None or not _is_by_token(found.model_price):
                return None
            rates[kind] = found.total_price / total
        rates["output"] -= rates["input"]  # it was asked beside as many tokens of input
        return rates


_Rates = dict[str, Decimal]
_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "input": (),
    "output": ("output_tokens",),
    "read": ("cache_read_tokens",),
    "written": ("cache_write_tokens",),
    "written for an hour": ("cache_write_tokens", "cache_write_1h_tokens"),
    "written for minutes": ("cache_write_tokens", "cache_write_5m_tokens"),
}


def _kinds(spent: Spent) -> Iterator[tuple[str, int]]:
    """The tokens of each kind."""
    used, long = spent.usage, spent.written_for_an_hour
    yield "input", used.input
    yield "output", used.output
    yield "read", used.cache_read
    if long:
        yield "written for an hour", long
        yield "written for minutes", used.cache_write - long
    else:
        yield "written", used.cache_write


def _input(spent: Spent) -> int:
    used = spent.usage
    return used.input + used.cache_read + used.cache_write


def _is_by_token(prices: Any) -> bool:
    """Whether a model has a price, and none for each request."""
    named = [name for name, price in vars(prices).items() if price is not None]
    return bool(named) and "requests_kcount" not in named


def _starts(prices: Any) -> set[int]:
    """The sizes of an input above which a model has other prices."""
    tiers = (getattr(price, "tiers", ()) for price in vars(prices).values())
    return {tier.start for found in tiers for tier in found}


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
