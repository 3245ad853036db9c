"""What messages of pydantic-ai are as messages of a session: a part of each kind, whole and odd.

`python -m tests.adapters.pydantic_translated` writes the expectations again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from sessiontree.adapters.pydantic_ai import translated

EXPECTED: Final = Path(__file__).parent / "pydantic_translated.json"
_CALL: Final = {"tool_name": "look", "tool_call_id": "c1"}
_USAGE: Final = {
    "input_tokens": 10,
    "output_tokens": 5,
    "cache_read_tokens": 3,
    "cache_write_tokens": 2,
}


def _asked(kind: str, **keys: Any) -> dict[str, Any]:
    return {"kind": "request", "instructions": None, "parts": [{"part_kind": kind, **keys}]}


def _answered(*parts: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"kind": "response", **keys, "parts": list(parts)}


ITEMS: Final = [
    "a text",
    {"kind": "binary", "media_type": "image/png", "data": "AA==", "id": 1},
    {"kind": "binary", "media_type": "application/pdf", "data": "AA=="},
    {"kind": "binary", "data": "AA=="},
    {"kind": "binary", "media_type": "image/png", "data": None},
    {"kind": "image-url", "url": "https://example.com/a.png"},
    {"kind": "document-url", "url": "https://example.com/a.pdf"},
    {"kind": "text-content", "content": "more", "url": "unused"},
    {"kind": "cache-point"},
    {"kind": "another", "data": "AA=="},
]
MESSAGES: Final = [
    {"kind": "request", "parts": []},
    {"kind": "response", "parts": []},
    _asked("user-prompt", content="hello", timestamp="t"),
    _asked("user-prompt", content=ITEMS),
    _asked("user-prompt", content=[]),
    _asked("user-prompt", content=None),
    _asked("system-prompt", content="be brief", dynamic_ref=None),
    _asked("tool-return", content="found", **_CALL),
    _asked("tool-return", content="found", **_CALL, outcome="success"),
    _asked("tool-return", content={"a": [1]}, **_CALL, outcome="failed"),
    _asked("tool-return", content="found", tool_call_id="c1"),
    _asked("tool-return", content="found", tool_name="look"),
    _asked("tool-search-return", content="found", **_CALL),
    _asked("capability-load-return", content="found", **_CALL),
    _asked("retry-prompt", content="again", **_CALL),
    _asked("retry-prompt", content="again", tool_name=None),
    _asked("retry-feedback", content="again"),
    _asked("tool-return", content=["a", "b"], **_CALL),
    _asked("another", content="odd"),
    _asked("another", content="odd", **_CALL),
    {
        "kind": "request",
        "run_id": "r",
        "parts": [
            {"part_kind": "system-prompt", "content": "be brief"},
            {"part_kind": "system-prompt", "content": "be kind"},
            {"part_kind": "user-prompt", "content": "hello"},
            {"part_kind": "tool-return", "content": "one", **_CALL},
            {"part_kind": "tool-return", "content": "two", **_CALL},
            {"part_kind": "user-prompt", "content": ["and", "more"]},
        ],
    },
    _answered(
        {"part_kind": "thinking", "content": "hm", "signature": "s"},
        {"part_kind": "text", "content": "hello", "id": None},
        {"part_kind": "tool-call", "args": {"a": 1}, **_CALL},
        model_name="m",
        provider_name="p",
        finish_reason="tool_call",
        usage=_USAGE,
    ),
    _answered({"part_kind": "tool-call", "args": '{"a": 1}', **_CALL}, finish_reason="stop"),
    _answered({"part_kind": "tool-call", **_CALL}, finish_reason="length"),
    _answered({"part_kind": "tool-search-call", "args": None, **_CALL}, finish_reason="error"),
    _answered({"part_kind": "capability-load-call", **_CALL}, finish_reason="content_filter"),
    _answered({"part_kind": "tool-call", "tool_name": "look", "args": {}}, model_name=""),
    _answered({"part_kind": "builtin-tool-call", "args": {}, **_CALL}, finish_reason=None),
    _answered({"part_kind": "text", "content": None}, {"part_kind": "thinking", "content": None}),
    _answered({"part_kind": "compaction", "content": "in short"}),
    _answered({"part_kind": "file", "content": {"kind": "binary"}}, usage={}),
    _answered(usage={"input_tokens": 4, "cache_read_tokens": 3, "cache_write_tokens": 2}),
    _answered(usage={"input_tokens": None, "output_tokens": None}),
]


def made() -> list[Any]:
    """Each message, with the messages of a session for it."""
    return [
        {"given": one, "made": [[each.message, each.kept] for each in translated(one)]}
        for one in MESSAGES
    ]


def main() -> None:
    lines = ",\n".join(json.dumps(one) for one in made())
    EXPECTED.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
