"""Model clients that answer from a list, in place of the ones that ask a provider.

The answers are objects of the providers' own packages, so that an example sees what it
would see from the network. These packages take seconds to import, so only the examples
that name them do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


class FakeClient:
    """A client of either provider; each request gets the next answer."""

    def __init__(self, answers: Iterator[Any]) -> None:
        self.messages = self.responses = self
        self._answers = answers

    def create(self, **request: Any) -> Any:
        assert request["tools"]
        assert request.get("messages") or request.get("input")
        return next(self._answers)


def answer_from_lists(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put such a client where an example imports a provider's."""
    if "import anthropic" in code:
        monkeypatch.setattr("anthropic.Anthropic", lambda: FakeClient(_of_anthropic()))
    if "from openai" in code:
        monkeypatch.setattr("openai.OpenAI", lambda: FakeClient(_of_openai()))


def _of_anthropic() -> Iterator[Any]:
    from anthropic.types import Message

    call = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "notes.md"}}
    text = {"type": "text", "text": "Two lines: be quick, use Rust."}
    for block, reason in ((call, "tool_use"), (text, "end_turn")):
        fields = {
            "id": f"msg_{reason}",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-6",
            "content": [block],
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }
        yield Message.model_validate(fields)


def _of_openai() -> Iterator[Any]:
    from openai.types.responses import Response

    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "add",
        "arguments": '{"a": 2, "b": 3}',
        "status": "completed",
    }
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "5", "annotations": []}],
    }
    for item in (call, message):
        fields = {
            "id": f"resp_{item['id']}",
            "object": "response",
            "created_at": 0,
            "model": "gpt-5",
            "output": [item],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 10,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 15,
            },
        }
        yield Response.model_validate(fields)
