"""The built-in rules cost time in proportion to the text: by how they are built, and tried."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sessiontree.redact.redaction import Redaction, joined, plain
from sessiontree.redact.rule import Rule, lowered
from sessiontree.redact.rules import RULES
from tests.support.soak import in_soak
from tests.support.table import for_each

constants: Any = re._constants  # type: ignore[attr-defined]
REPEATS = (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT)
ONE_CHARACTER = (constants.LITERAL, constants.NOT_LITERAL, constants.ANY, constants.IN)


def nodes(pattern: Any, atomic: bool = False) -> Iterator[tuple[Any, Any, bool]]:
    """Each node of a parsed expression, and whether it is in a group that is not gone back into."""
    for kind, value in pattern:
        yield kind, value, atomic
        below = atomic or kind == constants.ATOMIC_GROUP
        for part in value if isinstance(value, tuple | list) else [value]:
            for inner in part if isinstance(part, list) else [part]:
                if type(inner).__name__ == "SubPattern":
                    yield from nodes(inner, below)


def is_endless(kind: Any, value: Any) -> bool:
    return kind in REPEATS and value[1] == constants.MAXREPEAT


@for_each("rule", RULES)
def test_no_endless_repetition_is_within_another_that_could_give_back(rule: Any) -> None:
    for kind, value, atomic in nodes(re._parser.parse(rule.pattern.pattern)):  # type: ignore[attr-defined]
        if not is_endless(kind, value):
            continue
        for inner_kind, inner, _ in nodes(value[2]):
            if is_endless(inner_kind, inner):
                assert atomic, "an endless repetition of an endless one"
                assert inner_kind == constants.POSSESSIVE_REPEAT
                assert next(k for k, _ in inner[2]) in ONE_CHARACTER


HOSTILE = [
    *("a", "a@", "x@a.", "a%40b.", "eyJ", "eyJaaaaaaaaa.", "-----BEGIN PRIVATE KEY-----"),
    *("-----BEGIN PRIVATE KEY-----\\n", "token=", "token='x token=\"y ", "password: ", "sk-ant-"),
    *("://a:", "://a", "/home/", "/mnt/c/home/", "C:\\Users\\a ", "bearer ", "authorization:"),
    *("\x1b[3", "\x1b]", "[redacted:email:1]", "[redacted:email:1] a@b.co ", "-home-", '{"a":'),
    *("AKIA", "AIza", "npm_", "ghp_", "hf_", "secret_access_key ", "data:image/png;base64,", '\\"'),
    *("api_key=api_key", "--a-", "--password 'x ", "--password --password", "-u a:"),
    *("mysql ", "sshpass -p "),
]


@for_each("piece", HOSTILE)
def test_a_hostile_text_is_done_with(piece: str) -> None:
    # A rule that took the square of this would not be done within the day.
    text = piece * (40_000 // len(piece))
    assert Redaction().text("password" + " " * 40_000 + text)


of_either_size = in_soak("size", 4_000, 200_000)
FILLERS = ["", "a", "a1", " ", "\\", "'", '"', ".", "-", "/", "=", ":", "@", "\n", "<", "aB1_"]
GROWTH = 9.0  # of a linear cost it is 4; of one that grows with the square, 16
SMALL = 0.1  # seconds of the processor that are too few to measure a growth


def awkward(rule: Rule) -> Iterator[Callable[[int], str]]:
    """Texts of any size in which a rule is tried often, or matches long and then fails."""
    first, *others = rule.hints or ("password",)
    fillers = FILLERS[:: 3 if rule.is_format else 1]
    pieces = [*(first + filler for filler in fillers), *others[:20]]
    for piece in pieces:
        yield lambda size, piece=piece: (piece * (size // len(piece) + 1))[:size]  # type: ignore[misc]
    for filler in fillers[1:]:
        yield lambda size, filler=filler: (first + filler * size)[:size]  # type: ignore[misc]


def seconds(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def assert_grows_with_the_size(
    work: Callable[[str], Any], text: Callable[[int], str], size: int
) -> None:
    large = text(size)
    spent = seconds(lambda: work(large))
    if spent > SMALL:
        small = text(size // 4)
        quarter = min(seconds(lambda: work(small)) for _ in range(2))
        if spent >= GROWTH * quarter:  # or another program had the processor's cache
            spent = seconds(lambda: work(large))
        assert spent < GROWTH * quarter, (large[:40], quarter, spent)


@pytest.mark.slow
@of_either_size
@for_each("rule", RULES)
def test_the_cost_of_a_rule_grows_with_the_text(rule: Rule, size: int) -> None:
    for text in awkward(rule):
        assert_grows_with_the_size(lambda text: list(rule.spans(text, lowered(text))), text, size)


VIEWED = [
    *("\\", "\\u", "%4", "&#", "<a", "<a>", "aaa\n", "a*", "a**b", "\x1b[", "\x1b]", "ｇ", "a'+'"),
]


@pytest.mark.slow
@of_either_size
@for_each("piece", VIEWED)
def test_the_cost_of_what_a_spelling_hides_grows_with_the_text(piece: str, size: int) -> None:
    def text(size: int) -> str:
        return (piece * (size // len(piece) + 1))[:size]

    assert_grows_with_the_size(lambda text: (plain(text), list(joined(text))), text, size)


@pytest.mark.slow
@of_either_size
@for_each("piece", ["{", "[", '{"a":', '["a",', '{"a":1}\n', "[1,\n", '{"a":"b"},'])
def test_the_cost_of_text_that_may_be_json_grows_with_the_text(piece: str, size: int) -> None:
    def text(size: int) -> str:
        return (piece * (size // len(piece) + 1))[:size]

    assert_grows_with_the_size(Redaction().text, text, size)


def test_a_quoted_value_of_backslashes_alone_ends() -> None:
    for flag in ("--password '", 'password = "', '--token "'):
        assert Redaction().text(flag + "\\" * 10_000)
