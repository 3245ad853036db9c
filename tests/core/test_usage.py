"""Usage in every provider's shape comes to the same numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sessiontree import Session
from sessiontree.core.usage import (
    LARGEST,
    EntryTally,
    Usage,
    reports_cost,
    usage_of,
    written_for_an_hour,
)
from tests.support.conversation import user
from tests.support.table import for_each
from tests.support.terminal import run

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


def test_each_shape_is_read() -> None:
    cases: list[tuple[Any, Usage]] = [
        (PI, Usage(7, 2, 3, 1, 0.5)),
        (ANTHROPIC, Usage(7, 2, 3, 1)),
        (CHAT, Usage(7, 2, 3)),
        (RESPONSES, Usage(7, 2, 3)),
        (CODEX, Usage(7, 2, 3)),
        ({**CODEX, "cache_write_input_tokens": 2}, Usage(5, 2, 3, 2)),
        ({"input": 1, "cost": 0.25}, Usage(input=1, cost=0.25)),
        ({"input": 3.0, "output": 2.5}, Usage(input=3)),
    ]
    for reported, usage in cases:
        assert usage_of(reported) == usage


def test_nonsense_counts_as_nothing() -> None:
    cases: list[Any] = [
        *(None, [], "12", {}, {"input": "7"}, {"input": True}, {"input": -1}, {"input": 1.5}),
        *({"cost": -1}, {"cost": {"total": "1"}}, {"cost": float("inf")}),
        *({"input": 10**400}, {"cost": 10**400}, {"cost": float("nan")}, {"input": LARGEST + 1}),
        {"prompt_tokens_details": {"cached_tokens": None}},
    ]
    for nonsense in cases:
        assert usage_of(nonsense) == Usage()


@for_each(
    "reported, is_reported",
    [({"cost": LARGEST}, True), ({"cost": LARGEST * 1.1}, False)]
    + [(PI, True), ({"cost": 0}, True), (ANTHROPIC, False), ({"cost": "1"}, False), (None, False)]
    + [({"cost": cost}, False) for cost in (True, -1, 10**13, 10**400, float("inf"), float("nan"))],
)
def test_a_cost_of_0_is_reported_too(reported: Any, is_reported: bool) -> None:
    assert reports_cost(reported) == is_reported


def test_what_a_cache_keeps_for_an_hour_is_part_of_what_is_written() -> None:
    cases: list[tuple[Any, int]] = [
        ({**ANTHROPIC, "cache_creation": {"ephemeral_1h_input_tokens": 1}}, 1),
        ({**ANTHROPIC, "cache_creation": {"ephemeral_1h_input_tokens": 9}}, 1),  # of 1 written
        ({**ANTHROPIC, "cache_creation": None}, 0),
        (None, 0),
    ]
    for reported, tokens in cases:
        assert written_for_an_hour(reported) == tokens


def test_usage_adds_up() -> None:
    assert usage_of(PI) + usage_of(ANTHROPIC) == Usage(14, 4, 6, 2, 0.5)


@for_each("command", ["stats", "tree", "ls", "export"])
def test_huge_numbers_of_an_answer_are_no_fault(command: str, tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with Session.create(file) as session:
        session.append_message(user("q"))
    with file.open("a") as appending:
        usage = {"input": 10**400, "output": 1, "cost": {"total": 10**400}}
        message = {"role": "assistant", "content": "a", "model": "m", "usage": usage}
        fields = {"type": "message", "uuid": "b", "parentUuid": session.leaf.uuid}
        appending.write(json.dumps({**fields, "message": message}) + "\n")
    result = run(command, str(tmp_path if command == "ls" else file))
    assert (result.exit_code, "a fault in" in result.output) == (0, False)


def test_half_a_character_in_the_name_of_a_model_is_counted() -> None:
    tally = EntryTally()
    message = {"role": "assistant", "model": "\ud800", "usage": {"input": 3}}
    tally.take(json.dumps({"type": "message", "uuid": "a", "message": message}).encode())
    counts = tally.counts()
    assert (counts.model, counts.usage.input) == ("?", 3)
