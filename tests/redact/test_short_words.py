"""A short word is passed over; that no rule finds a secret in one by itself is tried here."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.redact.redaction import Redaction
from sessiontree.redact.rule import Rules
from sessiontree.redact.rules import RULES, parse_rules
from tests.support.soak import amount

OWN = parse_rules("own = 'ab[0-9]'", "rules.toml")
BUILT_IN = Rules(RULES)
LONGEST = 15

_PIECES = sorted(
    {hint for rule in RULES for hint in rule.hints if hint.isalnum() and hint.isascii()}
    | {"a", "b", "A", "Z", "0", "1", "9", "sk", "AKIA", "ghp", "n", "u0026", "x1b"}
)


@settings(max_examples=amount(600))
@given(st.lists(st.sampled_from(_PIECES), min_size=1, max_size=6).map("".join))
def test_no_built_in_rule_finds_a_secret_in_a_short_word(word: str) -> None:
    word = word[:LONGEST]
    assert not list(BUILT_IN.spans(word))
    assert Redaction().text(word) == word
    assert Redaction().value({"uuid": word, "parentUuid": word}) == {
        "uuid": word,
        "parentUuid": word,
    }


def test_a_format_is_found_in_a_word_of_one_character_more_than_a_short_one() -> None:
    words = ["AKIA" + "QWERTYUIOPASDFGH", "password=hunter2x"]
    assert [Redaction().text(word) for word in words] != words
    shorter = Redaction().value({"password": "hunter2"})
    assert shorter != {"password": "hunter2"}


def test_signs_beside_a_short_word_are_searched() -> None:
    assert Redaction().text("pwd=hunter22") != "pwd=hunter22"
    assert Redaction().text("ｐwd＝hunter22") != "ｐwd＝hunter22"


def test_a_rule_of_the_user_finds_a_short_word() -> None:
    redaction = Redaction(OWN)
    assert redaction.text("ab1") != "ab1"
    assert redaction.value({"uuid": "ab1"}) != {"uuid": "ab1"}
    assert redaction.text("ab") == "ab"
