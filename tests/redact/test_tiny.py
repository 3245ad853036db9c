"""A word of a few letters is passed over; that no rule finds one by itself is tried here."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.redact.redaction import Redaction
from sessiontree.redact.rule import Rules
from sessiontree.redact.rules import RULES, parse_rules

OWN = parse_rules("own = 'ab[0-9]'", "rules.toml")
BUILT_IN = Rules(RULES)


@settings(max_examples=400)
@given(st.text("abAZ019sk", min_size=1, max_size=6))
def test_no_built_in_rule_finds_a_secret_in_a_tiny_word(word: str) -> None:
    assert not list(BUILT_IN.spans(word))
    assert Redaction().text(word) == word
    assert Redaction().value({"uuid": word, "parentUuid": word}) == {
        "uuid": word,
        "parentUuid": word,
    }


def test_a_rule_of_the_user_finds_a_tiny_word() -> None:
    redaction = Redaction(OWN)
    assert redaction.text("ab1") != "ab1"
    assert redaction.value({"uuid": "ab1"}) != {"uuid": "ab1"}
    assert redaction.text("ab") == "ab"
