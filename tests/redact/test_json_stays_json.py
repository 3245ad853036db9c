"""What was valid JSON before a redaction is valid JSON after it, with the same keys and shape."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.redact.redaction import Redaction
from tests.redact.test_redaction import ANY_HELD
from tests.support.soak import amount
from tests.support.table import for_each

LEAVES = st.one_of(
    ANY_HELD.map(lambda made: made[0]),
    st.text(max_size=12),
    st.sampled_from(
        [
            *(
                "https://host/home/alice/y",
                "/home/alice/x",
                "a.~/home/alice",
                "C:\\Users\\alice\\x",
            ),
            *("-u", "--password", "joe:swordfish1", "\\", '"', "password", "[redacted:email:1]"),
        ]
    ),
    st.integers(0, 10**9),
    st.booleans(),
    st.none(),
)
KEYS = st.sampled_from(["password", "url", "token", "name", "value", "args", "data", "auth", "a b"])
VALUES = st.recursive(
    LEAVES,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(KEYS, below, max_size=4),
    max_leaves=10,
)


def shape(value: Any) -> Any:
    """A value without its scalars."""
    if isinstance(value, dict):
        return [shape(each) for each in value.values()]
    if isinstance(value, list):
        return [shape(each) for each in value]
    return None


@settings(deadline=None, max_examples=amount(150))
@given(
    st.lists(VALUES, max_size=4) | st.dictionaries(KEYS, VALUES, max_size=4),
    st.sampled_from([None, 2, "\t"]),
    st.booleans(),
    st.booleans(),
)
def test_json_text_stays_json_of_the_same_shape(
    value: Any, indent: Any, ascii_only: bool, slashes: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    if slashes:
        text = text.replace("/", "\\/")
    masked = Redaction().text(text)
    assert shape(json.loads(masked)) == shape(value)
    assert Redaction().text(masked) == masked


@settings(deadline=None, max_examples=amount(60))
@given(VALUES, st.integers(1, 4))
def test_json_within_json_stays_json_at_each_depth(value: Any, depth: int) -> None:
    text = json.dumps([value])
    for _ in range(depth):
        text = json.dumps({"output": text}).replace("/", "\\/")
    found = Redaction().text(text)
    for _ in range(depth):
        found = json.loads(found)["output"]
    assert shape(json.loads(found)) == shape([value])


@for_each(
    "text, masked",
    [
        ('{"url": "https:\\/\\/host\\/home\\/alice\\/y"}', None),
        ('{"url": "a~\\/home\\/alice\\/y"}', None),
        ('{"dir": "\\/home\\/alice\\/y"}', '{"dir": "~/y"}'),
        ('{"password": 12345678}', '{"password": "[redacted:assigned-secret:1]"}'),
        (
            '{"name": "DB_PASSWORD", "value": "swordfish"}',
            '{"name": "DB_PASSWORD", "value": "[redacted:assigned-secret:1]"}',
        ),
        ('["curl", "-u", "joe:swordfish"]', '["curl", "-u", "joe:[redacted:command-secret:1]"]'),
        ('{"a": 1}\n{"b": "ann@a.org"}\n', '{"a": 1}\n{"b": "[redacted:email:1]"}\n'),
        ('{\n  "b": "ann@a.org"\n}\n', '{\n  "b": "[redacted:email:1]"\n}\n'),
        (
            '{"a": "ann@a.org", "a": "bob@b.org"}',
            '{"a": "[redacted:email:1]", "a (2)": "[redacted:email:2]"}',
        ),
    ],
)
def test_json_text_is_masked_by_its_values_in_its_own_style(text: str, masked: str | None) -> None:
    assert Redaction().text(text) == (text if masked is None else masked)


def test_a_mask_made_from_the_words_around_keeps_its_number() -> None:
    redaction = Redaction()
    value = {"data": [["curl", "-u", "joe:swordfish"], ["curl", "-u", "joe:swordfish"]]}
    mask = "joe:[redacted:command-secret:1]"
    assert redaction.value(value, "e") == {"data": [["curl", "-u", mask], ["curl", "-u", mask]]}
    assert redaction.report()["secrets"] == {"command-secret": 1}


@for_each("depth", [300, 700, 900, 960, 990, 5000])
@for_each("opening", ["[", "[\n  "])
def test_no_depth_of_json_text_fails_or_hides_a_secret(depth: int, opening: str) -> None:
    text = opening * depth + '"ann@a.org"' + "]" * depth
    assert "ann@a.org" not in Redaction().text(text)
