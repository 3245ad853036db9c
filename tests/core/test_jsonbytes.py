"""The JSON that a checksum is made of, written by two encoders."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiontree.core.jsonbytes import dumps, sorted_ascii
from sessiontree.errors import EntryError
from tests.support.table import for_each

ALIKE = [
    {"b": [1, True, None, {"z": "", "a": -5}], "a": "x" * 300},
    {"text": "".join(map(chr, range(127)))},
    {"many": list(range(202)), "whole": [0, 255, 2**64 - 1, -(2**63)]},
]
OTHERS = [1.5, 1e16, float("nan"), float("inf"), "é", "\x7f", "\ud800", 2**64, {1: 2}, b"x"]


def test_sorted_ascii_is_what_the_standard_library_writes() -> None:
    for value in ALIKE:
        whole = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
        assert sorted_ascii(value) == whole


def test_sorted_ascii_leaves_what_the_two_may_write_otherwise() -> None:
    for value in OTHERS:
        assert sorted_ascii({"key": [value]}) is None


class Model:
    """An object of an SDK that is a part of itself."""

    def model_dump(self, **options: Any) -> list[Any]:
        return [self]


CIRCLE: list[Any] = [2**64]
CIRCLE.append(CIRCLE)

REFUSED = [
    (CIRCLE, "nested too deeply"),
    (Model(), "nested too deeply"),
    ({1: 2}, "Dict key must be str"),
    ({"a": [2**64, {1: 2}]}, "Dict key must be str"),
    ("\ud800", "surrogates not allowed"),
    (b"x", "Type is not JSON serializable: bytes"),
    ([2**64, {1}], "Type is not JSON serializable: set"),
    (float("nan"), "the number nan"),
    ([-(10**309)], "a number beyond 1.8e308"),
    ({"a": [None, -float("inf")]}, "the number -inf"),
]


@for_each("value, cause", REFUSED)
def test_what_json_cannot_carry_is_refused_with_its_cause(value: Any, cause: str) -> None:
    with pytest.raises(EntryError, match=f"not JSON: {cause}|not JSON: .*{cause}"):
        dumps(value)


def test_values_are_written_at_each_depth() -> None:
    for levels in (1, 200, 250):
        for innermost in (2**64, -(2**63) - 1, 5, "x"):
            value: Any = innermost
            for _ in range(levels):
                value = [value]
            assert dumps(value) == json.dumps(value).encode(), levels
