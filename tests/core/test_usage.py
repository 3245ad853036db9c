"""Usage in every provider's shape comes to the same numbers."""

from __future__ import annotations

from typing import Any

import pytest

from sessiontree.core.usage import Usage, reports_cost, usage_of, written_for_an_hour

PI = {"input": 7, "output": 2, "cacheRead": 3, "cacheWrite": 1, "cost": {"total": 0.5}}
ANTHROPIC = {
    "input_tokens": 7,
    "output_tokens": 2,
    "cache_read_input_tokens": 3,
    "cache_creation_input_tokens": 1,
}
CHAT = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}
RESPONSES = {"input_tokens": 10, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 3}}
CODEX = {
    "input_tokens": 10,
    "cached_input_tokens": 3,
    "output_tokens": 2,
    "reasoning_output_tokens": 1,
    "total_tokens": 12,
}


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        (PI, Usage(7, 2, 3, 1, 0.5)),
        (ANTHROPIC, Usage(7, 2, 3, 1)),
        (CHAT, Usage(7, 2, 3)),
        (RESPONSES, Usage(7, 2, 3)),
        (CODEX, Usage(7, 2, 3)),
        ({**CODEX, "cache_write_input_tokens": 2}, Usage(5, 2, 3, 2)),
        ({"input": 1, "cost": 0.25}, Usage(input=1, cost=0.25)),
    ],
)
def test_each_shape_is_read(reported: Any, usage: Usage) -> None:
    assert usage_of(reported) == usage


@pytest.mark.parametrize(
    "nonsense",
    [
        *(None, [], "12", {}, {"input": "7"}, {"input": True}, {"input": -1}, {"input": 1.5}),
        *({"cost": -1}, {"cost": {"total": "1"}}, {"cost": float("inf")}),
        {"prompt_tokens_details": {"cached_tokens": None}},
    ],
)
def test_nonsense_counts_as_nothing(nonsense: Any) -> None:
    assert usage_of(nonsense) == Usage()


@pytest.mark.parametrize(
    ("reported", "is_reported"),
    [(PI, True), ({"cost": 0}, True), (ANTHROPIC, False), ({"cost": "1"}, False), (None, False)],
)
def test_a_cost_of_0_is_reported_too(reported: Any, is_reported: bool) -> None:
    assert reports_cost(reported) == is_reported


@pytest.mark.parametrize(
    ("reported", "tokens"),
    [
        ({**ANTHROPIC, "cache_creation": {"ephemeral_1h_input_tokens": 1}}, 1),
        ({**ANTHROPIC, "cache_creation": {"ephemeral_1h_input_tokens": 9}}, 1),  # of 1 written
        ({**ANTHROPIC, "cache_creation": None}, 0),
        (None, 0),
    ],
)
def test_what_a_cache_keeps_for_an_hour_is_part_of_what_is_written(
    reported: Any, tokens: int
) -> None:
    assert written_for_an_hour(reported) == tokens


def test_usage_adds_up() -> None:
    assert usage_of(PI) + usage_of(ANTHROPIC) == Usage(14, 4, 6, 2, 0.5)
