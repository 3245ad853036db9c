"""On the texts of `fixtures/credentials`, secrets are masked and ordinary text is left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.redaction import (
    FOLDER,
    ORDINARY,
    SECRETS,
    Example,
    examples,
    marked,
    ordinary,
    score,
)
from sessiontree.redact.rules import RULES
from tests.support.table import for_each

LEAST_RECALL = 0.95
MOST_FALSE_ALARMS = 1 / 50
LEAST_TEXTS = 300


def told(missed: list[Example]) -> list[str]:
    return [f"{each.rule}: {each.text[:100]!r}" for each in missed]


@pytest.mark.slow
@for_each("name", SECRETS)
def test_secrets_are_masked(name: str) -> None:
    found = score(examples(name))
    assert found.recall >= LEAST_RECALL, told(found.missed)


@pytest.mark.slow
@for_each("name", ORDINARY)
def test_ordinary_texts_are_left_as_they_are(name: str) -> None:
    texts = ordinary(name)
    wrong = marked(texts)
    assert len(wrong) <= len(texts) * MOST_FALSE_ALARMS, wrong


def test_each_list_has_some_hundred_texts() -> None:
    assert all(len(examples(name)) >= LEAST_TEXTS for name in SECRETS)
    assert all(len(ordinary(name)) >= LEAST_TEXTS for name in ORDINARY)


@for_each(
    "text",
    ["docker run -u root:root1 x", "/home/runner/work/a.py", "mysql -proot_not", "/home/vscode/x"],
)
def test_what_was_masked_and_is_no_secret_is_left(text: str) -> None:
    assert marked([text]) == []


def test_every_rule_has_an_example() -> None:
    assert {rule.name for rule in RULES} <= {each.rule for each in examples("positive.txt")}


@for_each("path", sorted(FOLDER.glob("*.txt")))
def test_no_file_of_the_corpus_holds_what_looks_like_a_key(path: Path) -> None:
    spelled = re.sub("‹[^›]*›", "‹›", path.read_text("utf-8"))
    assert not re.search("[A-Za-z0-9+]{40}|[0-9a-f]{30}", spelled)


def test_the_examples_are_the_same_each_time() -> None:
    assert examples("positive.txt") == examples("positive.txt")
    assert ordinary() == ordinary()
