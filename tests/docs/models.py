"""Model clients that answer from a list, in place of the ones that ask a provider.

The answers are objects of the providers' own packages, so that an example sees what it
would see from the network.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from anthropic.types import Message
from openai.types.responses import Response


class FakeModel:
    """A client of either provider; each request gets the next answer."""

    answers: ClassVar[list[Any]] = []

    def __init__(self) -> None:
        self.messages = self.responses = self
        self._answers = iter(self.answers)

    def create(self, **request: Any) -> Any:
        assert request["tools"]
        assert request.get("messages") or request.get("input")
        return next(self._answers)


class FakeAnthropic(FakeModel):
    answers: ClassVar[list[Any]] = []


class FakeOpenAI(FakeModel):
    answers: ClassVar[list[Any]] = []


def _message(stop_reason: str, *content: Any) -> Message:
    fields = {
        "id": f"msg_{stop_reason}",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }
    return Message.model_validate(fields)


def _response(id: str, *output: Any) -> Response:
    fields = {
        "id": id,
        "object": "response",
        "created_at": 0,
        "model": "gpt-5",
        "output": list(output),
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
    return Response.model_validate(fields)


FakeAnthropic.answers = [
    _message(
        "tool_use",
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "notes.md"}},
    ),
    _message("end_turn", {"type": "text", "text": "Two lines: be quick, use Rust."}),
]
FakeOpenAI.answers = [
    _response(
        "resp_1",
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "add",
            "arguments": '{"a": 2, "b": 3}',
            "status": "completed",
        },
    ),
    _response(
        "resp_2",
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "5", "annotations": []}],
        },
    ),
]


def answer_from_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the examples get these clients where they import the providers' own."""
    monkeypatch.setattr("anthropic.Anthropic", FakeAnthropic)
    monkeypatch.setattr("openai.OpenAI", FakeOpenAI)
