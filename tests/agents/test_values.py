"""What is written of values for other agents, and which lines make a file theirs."""

from __future__ import annotations

import json
from typing import Any

from sessiontree.agents import recognise
from sessiontree.agents.writing import json_of
from tests.support.table import for_each

WRITTEN: list[tuple[Any, str]] = [
    ({"a": [1, None]}, '{"a":[1,null]}'),
    ([2**70], "[1180591620717411303424]"),
    ("é", '"é"'),
    ("\ud800", '"\\ud800"'),
    (["\ud800", 0.5, {"k": []}], '["\\ud800",0.5,{"k":[]}]'),
    ([float("nan"), {"a": -float("inf")}], '["nan",{"a":"-inf"}]'),
    ({"a": {1: 2}}, '{"a":{"1":2}}'),
]


@for_each(("value", "text"), WRITTEN, ids=[text for _, text in WRITTEN])
def test_any_value_is_json_on_one_line(value: Any, text: str) -> None:
    assert json_of(value) == text.encode()


SAID = {"type": "user", "sessionId": "s", "message": {"role": "user", "content": "Hi"}}
OTHER = {"type": "x"}

STARTS: list[tuple[list[dict[str, Any]], bool]] = [
    ([SAID], True),
    ([{"sessionId": "s"}], False),
    ([{"type": "user"}], False),
    ([{"type": "user", "sessionId": "s"}], False),
    ([{"type": "user", "sessionId": "s", "isSidechain": False}], True),  # its message is cut off
    ([{**SAID, "message": {"role": "user", "parts": [{"text": "Hi"}]}}], False),
    ([{"type": "system", "sessionId": "s", "systemPayload": {}}], False),
    ([{"type": "system", "sessionId": "s", "userType": "external"}], True),
    ([{"type": "summary", "summary": "a"}], False),
    ([{"type": "summary", "summary": "a", "leafUuid": "l"}], True),
    ([OTHER, SAID], True),
    ([{**SAID, "type": "session"}], False),
    ([OTHER, {**SAID, "type": "session"}], False),
    ([{**SAID, "payload": 1}], False),
    ([{**SAID, "projectHash": "p"}], False),
    ([{**OTHER, "payload": 1}, SAID], False),
    ([{**OTHER, "projectHash": "p"}, SAID], False),
    ([OTHER] * 19 + [SAID], True),
    ([OTHER] * 20 + [SAID], False),
    ([], False),
]


@for_each(("lines", "is_claude_code"), STARTS)
def test_the_first_lines_tell_a_file_of_claude_code(
    lines: list[dict[str, Any]], is_claude_code: bool
) -> None:
    found = recognise(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert (found is not None and found.name == "claude-code") is is_claude_code
