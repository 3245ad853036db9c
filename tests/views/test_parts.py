"""The parts of an entry, as a screen shows them."""

from __future__ import annotations

from typing import Any

import pytest

from sessiontree.views.parts import Part, parts_of

CALL = {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "ls\n-l", "n": [1]}}
SHOWN = Part("call", "bash", "command: ls\n-l\nn: [\n  1\n]")
OUT = {"type": "tool_result", "tool_use_id": "c", "content": "out"}
TYPED = "<command-name>/x</command-name>"
FUNCTION = {"id": "a", "function": {"name": "f", "arguments": "{}"}}
SHELL = {"role": "bashExecution", "command": "ls", "output": "a"}
SEALED = Part("thinking", "", "(only the provider can read it)")


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": content, **more}}


def text(words: str) -> Part:
    return Part("text", "", words)


@pytest.mark.parametrize(
    ("keys", "parts"),
    [
        (said("user", "hello"), [text("hello")]),
        (said("user", ""), []),
        (
            said("user", "<command-name>/x</command-name><command-args>y</command-args>"),
            [text("/x y")],
        ),
        (
            said("assistant", "<command-name>/x</command-name>"),
            [text("<command-name>/x</command-name>")],
        ),
        (
            said("assistant", [{"type": "thinking", "thinking": "hm"}, CALL, {"type": "text"}]),
            [Part("thinking", "", "hm"), SHOWN],
        ),
        (said("assistant", [{"type": "redacted_thinking", "data": "x"}]), [SEALED]),
        (
            said("assistant", "a", refusal="no", errorMessage="boom", error="bang"),
            [text("a"), text("no"), Part("error", "", "boom"), Part("error", "", "bang")],
        ),
        (said("assistant", "a", refusal="", errorMessage="", error=3), [text("a")]),
        (
            said(
                "assistant",
                "",
                tool_calls=[FUNCTION],
            ),
            [Part("call", "f", "{}")],
        ),
        (said("assistant", [{**CALL, "arguments": None}]), [Part("call", "bash", "")]),
        (said("assistant", [{**CALL, "arguments": [1]}]), [Part("call", "bash", "[\n  1\n]")]),
        (
            said("user", [OUT, {"type": "text", "text": "b"}]),
            [Part("result", "", "out"), text("b")],
        ),
        (
            said("user", [{**OUT, "is_error": True}]),
            [Part("error", "", "out")],
        ),
        (said("toolResult", "out"), [Part("result", "", "out")]),
        (
            said("tool", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
            [Part("result", "", "a\nb")],
        ),
        (said("toolResult", "out", isError=True), [Part("error", "", "out")]),
        (said("toolResult", "out", isError="no"), [Part("result", "", "out")]),
        (said("toolResult", {"a": 1}), [Part("result", "", '{\n  "a": 1\n}')]),
        (
            said("user", [{"type": "odd", "a": 1}]),
            [Part("other", "", '{\n  "type": "odd",\n  "a": 1\n}')],
        ),
        (
            {
                "type": "message",
                "message": {"role": "bashExecution", "command": "ls", "output": "a"},
            },
            [Part("call", "$", "ls"), Part("result", "", "a")],
        ),
        (
            {"type": "message", "message": {"role": "bashExecution"}},
            [Part("call", "$", ""), Part("result", "", "")],
        ),
        (
            {"type": "message", "message": {"type": "function_call_output", "output": "out"}},
            [Part("result", "", "out")],
        ),
        (
            {"type": "message", "message": {"type": "reasoning", "encrypted_content": "x"}},
            [SEALED],
        ),
        ({"type": "compaction", "summary": "short"}, [Part("summary", "", "short")]),
        ({"type": "custom_message", "content": "c"}, [text("c")]),
        (
            {"type": "own", "uuid": "u", "lane": "l", "crc": "c", "a": 1},
            [Part("other", "", '{\n  "a": 1\n}')],
        ),
        (
            dict.fromkeys(
                ("type", "uuid", "parentUuid", "lane", "timestamp", "crc", "spilled"), "x"
            ),
            [],
        ),
    ],
)
def test_an_entry_has_its_parts(keys: dict[str, Any], parts: list[Part]) -> None:
    assert parts_of(keys) == parts


def test_a_handle_has_the_parts_of_the_message_that_it_stands_for() -> None:
    message = {"role": "user", "content": "from elsewhere"}
    assert parts_of({"type": "handle", "handle": "h"}, message) == [text("from elsewhere")]
