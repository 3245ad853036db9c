"""A model on loopback: it speaks Anthropic's Messages and OpenAI's Responses, from a script.

The script is a function from a request to the content blocks of the answer. Each request is
checked as the providers check it: calls and results are paired, and no content is empty.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

_NUMBERS = count()

Script = Callable[[dict[str, Any]], list[dict[str, Any]]]


REFUSAL = json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}})


class Refused(Exception):
    """What a script raises to refuse a request, as a provider does with an invalid one."""


class Provider:
    """The address of the model, and the requests that it got, in order."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.faults: list[str] = []
        self.address = ""

    def environment(self) -> dict[str, str]:
        """The variables by which the SDKs find the model."""
        return {
            "ANTHROPIC_BASE_URL": self.address,
            "ANTHROPIC_API_KEY": "none",
            "OPENAI_BASE_URL": f"{self.address}/v1",
            "OPENAI_API_KEY": "none",
        }


@contextmanager
def provider(script: Script) -> Iterator[Provider]:
    """Serve a script on loopback."""
    served = Provider(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            served.requests.append(request)
            is_openai = self.path.endswith("/responses")
            faults = openai_faults(request) if is_openai else anthropic_faults(request)
            served.faults += faults
            if faults:
                return self.reply(400, "application/json", json.dumps({"error": faults}))
            try:
                blocks = served.script(request)
            except Refused:
                return self.reply(400, "application/json", REFUSAL)
            if is_openai:
                return self.reply(200, "application/json", json.dumps(_response(blocks)))
            if request.get("stream"):
                return self.reply(200, "text/event-stream", "".join(_events(blocks)))
            return self.reply(200, "application/json", json.dumps(_message(blocks)))

        def reply(self, status: int, media_type: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        served.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield served
        finally:
            server.shutdown()


def anthropic_faults(request: dict[str, Any]) -> list[str]:
    """What Anthropic refuses: a call without a result in the next message, or the reverse."""
    faults = []
    open_calls: set[str] = set()
    for message in request["messages"]:
        content = message["content"]
        if not content and message["role"] != "system":  # Claude Code sets an effort with one
            faults.append("empty content")
        blocks = content if isinstance(content, list) else []
        results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if results != open_calls:
            faults.append(f"results {sorted(results)} for calls {sorted(open_calls)}")
        open_calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
    return faults + ([f"calls without results: {sorted(open_calls)}"] if open_calls else [])


def openai_faults(request: dict[str, Any]) -> list[str]:
    """What OpenAI refuses: calls and outputs that are not pairs."""
    items = request["input"]
    calls = sorted(item["call_id"] for item in items if item.get("type") == "function_call")
    outputs = [item for item in items if item.get("type") == "function_call_output"]
    answered = sorted(item["call_id"] for item in outputs)
    return [] if calls == answered else [f"outputs {answered} for calls {calls}"]


def _message(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    is_call = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": f"msg_{next(_NUMBERS)}",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": blocks,
        "stop_reason": "tool_use" if is_call else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def _events(blocks: list[dict[str, Any]]) -> Iterator[str]:
    """The message as server-sent events, each text and each input in two pieces."""
    whole = _message(blocks)
    start = whole | {"content": [], "stop_reason": None}
    yield _event({"type": "message_start", "message": start})
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            kind, key, text = "text_delta", "text", block["text"]
            empty = block | {"text": ""}
        else:
            kind, key, text = "input_json_delta", "partial_json", json.dumps(block["input"])
            empty = block | {"input": {}}
        opened = {"type": "content_block_start", "index": index, "content_block": empty}
        yield _event(opened)
        for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
            delta = {"type": kind, key: piece}
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}})
    yield _event({"type": "message_stop"})


def _event(event: dict[str, Any]) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


def _response(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "model": "gpt-5",
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        },
    }
