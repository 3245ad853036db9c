"""The JSON that a checksum is made of, written by two encoders."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiontree.core.jsonbytes import sorted_ascii

ALIKE = [
    {"b": [1, True, None, {"z": "", "a": -5}], "a": "x" * 300},
    {"text": "".join(map(chr, range(127)))},
    {"many": list(range(202)), "whole": [0, 255, 2**64 - 1, -(2**63)]},
]
OTHERS = [1.5, 1e16, float("nan"), float("inf"), "é", "\x7f", "\ud800", 2**64, {1: 2}, b"x"]


@pytest.mark.parametrize("value", ALIKE)
def test_sorted_ascii_is_what_the_standard_library_writes(value: Any) -> None:
    whole = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    assert sorted_ascii(value) == whole


@pytest.mark.parametrize("value", OTHERS, ids=repr)
def test_sorted_ascii_leaves_what_the_two_may_write_otherwise(value: Any) -> None:
    assert sorted_ascii({"key": [value]}) is None
