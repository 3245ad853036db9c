"""Secrets that overlap, touch or repeat are masked as a plain model says."""

from __future__ import annotations

import re
from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from sessiontree.redact.redaction import Redaction
from sessiontree.redact.rule import Rule

PATTERNS = {"one": "xy+", "two": "y+z", "three": "zx"}
"""No part of a mask has these letters."""

RULES = [Rule(name, name, pattern) for name, pattern in PATTERNS.items()]


class Model:
    """Masks secrets in the simplest way."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[str]] = {name: [] for name in PATTERNS}
        self.masked: Counter[str] = Counter()

    def text(self, text: str) -> str:
        parts, at = [], 0
        for start, end, place in self.apart(text):
            name, secret = list(PATTERNS)[place], text[start:end]
            known = self.numbers[name]
            if secret not in known:
                known.append(secret)
            parts += [text[at:start], f"[redacted:{name}:{known.index(secret) + 1}]"]
            self.masked[name] += 1
            at = end
        return "".join([*parts, text[at:]])

    @staticmethod
    def apart(text: str) -> list[tuple[int, int, int]]:
        """The secrets; those that share a character are one, of the rule that goes first."""
        spans = sorted(
            (*match.span(), place)
            for place, pattern in enumerate(PATTERNS.values())
            for match in re.finditer(pattern, text)
        )
        apart: list[tuple[int, int, int]] = []
        for start, end, place in spans:
            if apart and start < apart[-1][1]:
                first, last, other = apart[-1]
                apart[-1] = first, max(last, end), min(other, place)
            else:
                apart.append((start, end, place))
        return apart


@given(st.lists(st.text("xyz .", max_size=12), max_size=4))
@example(["xyyz"])  # two overlap
@example(["xyxy"])  # two touch
@example(["xyyzx", "xyyzx", "zx xy"])
def test_secrets_are_masked_as_the_model_masks_them(texts: list[str]) -> None:
    redaction, model = Redaction(RULES), Model()
    for text in texts:
        assert redaction.text(text, "entry") == model.text(text)
    assert redaction.masked == {(name, "entry"): n for name, n in model.masked.items()}
    found = {name: len(secrets) for name, secrets in model.numbers.items() if secrets}
    assert redaction.report()["secrets"] == found


@given(st.lists(st.text("xyz ", max_size=8), max_size=4))
def test_the_strings_of_a_value_are_masked_as_texts_are(texts: list[str]) -> None:
    model = Model()
    masked = {"content": [model.text(text) for text in texts], "more": 1}
    assert Redaction(RULES).value({"content": texts, "more": 1}) == masked


def test_homes_are_masked_only_with_the_rule_for_homes() -> None:
    redaction = Redaction(RULES, homes=["/srv/mary"])
    assert redaction.text("/srv/mary/xy") == "/srv/mary/[redacted:one:1]"
