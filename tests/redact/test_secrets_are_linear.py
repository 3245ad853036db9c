"""The built-in rules cost time in proportion to the text: by how they are built, and tried."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from sessiontree.redact.redaction import Redaction
from sessiontree.redact.rules import RULES

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


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
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


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_text_is_done_with(piece: str) -> None:
    # A rule that took the square of this would not be done within the day.
    text = piece * (40_000 // len(piece))
    assert Redaction().text("password" + " " * 40_000 + text)
