"""Prices come from the data of the package, per answer, and the costs of turns add up."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.core.usage import Mode, Spent, Usage
from sessiontree.views.costs import CostSum, Prices, costs_of_turns, load
from sessiontree.views.turns import outline
from tests.support.spent import CLAUDE_CODE, claude_code_home, said, used
from tests.support.table import for_each
from tests.support.transcripts import user, written

AT = datetime(2026, 2, 1, tzinfo=UTC)
MILLION = 1_000_000


@pytest.fixture(scope="module")
def prices() -> Prices:
    found = load()
    assert found is not None
    return found


def spent(usage: Usage, model: str = "claude-opus-4-5", **more: Any) -> Spent:
    time = int(more.pop("at", AT).timestamp() * 1000)
    return Spent(time=time, model=model, usage=usage, **more)


def test_each_kind_of_tokens_has_its_price(prices: Prices) -> None:
    alone = [Usage(MILLION), Usage(0, MILLION), Usage(0, 0, MILLION), Usage(0, 0, 0, MILLION)]
    each = [prices.of(spent(usage)) or 0.0 for usage in alone]
    new, output, read, write = each
    assert 0 < read < new < write < output
    assert prices.of(spent(sum(alone, Usage()))) == pytest.approx(sum(each))
    long = prices.of(spent(alone[3], written_for_an_hour=MILLION))
    assert long is not None
    assert long > write


@for_each(
    ("model", "provider", "is_known"),
    [
        ("gpt-5", "openai", True),
        ("gemini-2.5-pro", None, True),
        ("gpt-5", "a-server-of-ours", False),
        ("no-such-model", None, False),
        ("", None, False),
    ],
)
def test_a_model_is_priced_only_where_its_price_is_known(
    prices: Prices, model: str, provider: str | None, is_known: bool
) -> None:
    assert (prices.of(spent(Usage(10, 10), model, provider=provider)) is not None) == is_known


def test_a_listed_model_without_a_price_is_not_free() -> None:
    listed = SimpleNamespace(total_price=0, model_price=SimpleNamespace(input_mtok=None))
    assert Prices(lambda *args, **about: listed, dict, "test").of(spent(Usage(10))) is None


def test_a_long_request_is_priced_as_a_whole(prices: Prices) -> None:
    """Above 200,000 tokens of input, all of a request of Sonnet 4.5 costs more, its output too."""
    short = prices.of(spent(Usage(200_000, 1000), "claude-sonnet-4-5"))
    assert short == pytest.approx(200_000 * 3e-6 + 1000 * 15e-6)
    long = prices.of(spent(Usage(100_000, 1000, 100_001), "claude-sonnet-4-5"))
    assert long == pytest.approx(100_000 * 6e-6 + 1000 * 22.5e-6 + 100_001 * 0.6e-6)


FAST, TIER = Mode("speed", "fast"), Mode("service_tier", "priority")


@for_each(
    ("model", "mode", "times"),
    [
        ("claude-opus-5", FAST, 2),
        ("claude-opus-4-6", FAST, 6),  # which had a fast mode once
        ("claude-opus-4-7-20260401", FAST, 6),
        ("claude-haiku-4-5", FAST, 1),  # which never had one
        ("gpt-5.4", TIER, 2),  # on a day whose prices of tiers are not known
        ("gpt-5.5", TIER, 2.5),
        ("claude-opus-5", TIER, 1),  # which has no list price
        ("no-such-model", FAST, None),
    ],
)
def test_a_mode_has_its_own_price(
    prices: Prices, model: str, mode: Mode, times: float | None
) -> None:
    usual = prices.of(spent(Usage(1000, 1000, 1000), model))
    found = prices.of(spent(Usage(1000, 1000, 1000), model, mode=mode))
    assert found == (None if times is None else pytest.approx((usual or 0.0) * times))


_OFFLINE = """
import sys
def refuse(event, args):
    if event.startswith("socket."):
        raise SystemExit(f"the network was asked for: {event} {args}")
sys.addaudithook(refuse)
from sessiontree.core.usage import Spent, Usage
from sessiontree.views.costs import load
assert "genai_prices" not in sys.modules
assert load().of(Spent(model="claude-opus-4-5", usage=Usage(10, 10)))
"""


def test_prices_need_no_network(prices: Prices) -> None:
    subprocess.run([sys.executable, "-c", _OFFLINE], check=True)


def test_without_the_package_there_are_no_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert load() is None


def test_the_price_is_that_of_the_package_for_every_kind_of_model(prices: Prices) -> None:
    import genai_prices
    from genai_prices.data import providers

    chosen = Random(7)
    models = [(provider.id, model.id) for provider in providers for model in provider.models]
    known = 0
    for provider, model in chosen.sample(models, 300):
        for _ in range(4):
            written = chosen.choice([0, chosen.randint(0, 300_000)])
            usage = Usage(chosen.randint(0, 400_000), chosen.randint(0, 9_000), 70_000, written)
            at = AT - timedelta(minutes=chosen.randint(0, 1_000_000))
            kept = {
                "input_tokens": usage.input + usage.cache_read + written,
                "output_tokens": usage.output,
                "cache_read_tokens": usage.cache_read,
                **({"cache_write_tokens": written} if written else {}),
            }
            price = prices.of(spent(usage, model, provider=provider, at=at))
            if price is None:
                continue
            known += 1
            tokens = genai_prices.Usage(**kept)
            found = genai_prices.calc_price(
                tokens, model, provider_id=provider, genai_request_timestamp=at
            )
            assert price == float(found.total_price)
    assert known > 500


MANY = 100_000


def turns_of(file: Path) -> list[CostSum]:
    with Session.open(file, readonly=True) as session:
        return costs_of_turns(session.cursor, outline(session.cursor), load())


def test_each_turn_has_its_own_answers_and_its_subagents_theirs(tmp_path: Path) -> None:
    second = user("q", "a")
    lines = [
        said("a", "m", used(MANY)),
        second,
        {**said("b", "n", used(0, 0, 0, MANY)), "parentUuid": "q"},
        {**said("c", "n", used(0, 0, 0, MANY)), "parentUuid": "b"},
    ]
    file = claude_code_home(tmp_path, lines)
    inner = said("i", "s", used(0, MANY), "claude-haiku-4-5", isSidechain=True, agentId="one")
    asked = user("h", None, isSidechain=True, agentId="one")
    beside = file.with_suffix("") / "subagents" / "agent-one.jsonl"
    written(beside, [asked, {**inner, "parentUuid": "h"}])
    costs = [round(cost.dollars, 6) for cost in turns_of(file)]
    assert sorted(costs) == [0.5, 0.5, 0.625]
    assert all(cost.reported == cost.unpriced == 0 for cost in turns_of(file))


def test_what_is_reported_for_the_session_is_of_no_turn(tmp_path: Path) -> None:
    state = {"type": "cost-state", "modelUsage": {"claude-opus-4-6": {"costUSD": 12.5}}}
    file = claude_code_home(tmp_path, [*CLAUDE_CODE["an advisor"], state])
    assert sum(cost.dollars for cost in turns_of(file)) == pytest.approx(0.1755)


def test_what_is_reported_for_an_answer_is_of_its_turn(tmp_path: Path) -> None:
    file = claude_code_home(tmp_path, CLAUDE_CODE["a cost beside the answer"])
    found = turns_of(file)
    assert sum(cost.reported for cost in found) == 0.75
    assert sum(cost.estimated for cost in found) == 0
