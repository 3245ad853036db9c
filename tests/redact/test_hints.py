"""The search for many hints at once finds what a search for each finds."""

from __future__ import annotations

import random
import re

from sessiontree.redact.rule import any_of, hints_of, lowered
from sessiontree.redact.rules import RULES
from tests.support.table import for_each

HINTS = frozenset(hint for rule in RULES for hint in rule.hints)


@for_each("size", [0, 3, 20, 120, 299, 300, 301, 2000])
@for_each("hints", [HINTS, frozenset({"aab", "ab", "b", "ba", "abab"})])
def test_the_hints_in_a_text_are_found_however_they_overlap(
    hints: frozenset[str], size: int
) -> None:
    chance = random.Random(size)
    alphabets = ("ab", "sk-_live:pat", "é\ud800ſ pass", "".join(sorted(HINTS)))
    search = hints_of(hints)
    for _ in range(60):
        alphabet = chance.choice(alphabets)
        text = "".join(chance.choices(alphabet, k=size))
        for hint in chance.sample(sorted(hints), min(3, len(hints))) if size else ():
            at = chance.randrange(len(text))
            text = text[:at] + hint + text[at + chance.randrange(3) :]
        assert set(search.within(text)) == {hint for hint in hints if hint in text}


def test_no_hints_are_in_any_text() -> None:
    assert hints_of(frozenset()).within("a") == []


def test_the_expression_for_some_words_matches_each_of_them() -> None:
    words = ["sk-", "sk", "sk-lf-", "pk", "a.b", "[", "a"]
    longest, shortest = re.compile(any_of(words, longest=True)), re.compile(any_of(words))
    assert [longest.findall(word) for word in words] == [[word] for word in words]
    assert all(word.startswith(shortest.findall(word)[0]) for word in words)


def test_a_hit_in_a_long_word_is_where_it_is_in_the_text() -> None:
    text = "a bc sk-0123456789abcdef0 (x) aaaaaaaaaaaaaaaa,bb\n..sk-...............,sk-1"
    low = lowered(text.upper())
    rule = next(rule for rule in RULES if rule.name == "openai-key")
    assert rule.finder is not None
    assert list(low.hits(rule.finder, in_words=True)) == [5, 52]
    assert list(low.hits(rule.finder, in_words=False)) == [5, 52, 71]
