"""A model on loopback that speaks three APIs, is as strict as they are, and fails as they do.

A script answers each request with blocks of Anthropic's kind: `thinking` without a signature,
`text`, and `tool_use` without an id. They are sent in the shape of the API that was asked:
Anthropic's Messages, OpenAI's Responses or Chat Completions, as a stream or whole. The model seals
what it thought, refuses requests by `rules`, and keeps a prompt cache.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, Final, Literal

from tests.examples.rules import Api, Object, faults, prefix_of, seal

Script = Callable[[Api, Object], list[Object]]
Fault = Literal["overloaded", "error", "cut"]

_APIS: Final[dict[str, Api]] = {
    "/v1/messages": "anthropic",
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat",
}
_LEAST_CACHED: Final = 1024
"""The tokens of the shortest prefix that the APIs keep."""
_LOOKED_BACK: Final = 20
"""The blocks before a breakpoint of Anthropic where a shorter prefix is found."""


@dataclass(frozen=True)
class Asked:
    """A request, what was wrong with it, and what the cache had of it."""

    api: Api
    key: str  # the API key, by which tests tell sessions apart
    body: Object
    faults: list[str]
    prefix: list[str]  # tools, system and each block as text, without `cache_control`
    tokens: int
    cached: int
    facts: Any  # what `on_request` returned


class Cut(Exception):
    """The connection breaks."""


class ModelServer:
    """The model: its address, and the requests that it got, in order."""

    def __init__(self, script: Script, *, window: int | None) -> None:
        self.script = script
        self.window = window
        self.address = ""
        self.requests: list[Asked] = []
        self.next_fault: Callable[[], Fault | None] = lambda: None
        self.on_request: Callable[[str], Any] = lambda key: None
        self.on_event: Callable[[str], None] = lambda key: None
        self._cache: set[str] = set()
        self._numbers = count(1)
        self._lock = threading.Lock()

    def environment(self, key: str = "none") -> dict[str, str]:
        """The variables by which the SDKs find the model."""
        return {
            "ANTHROPIC_BASE_URL": self.address,
            "ANTHROPIC_API_KEY": key,
            "OPENAI_BASE_URL": f"{self.address}/v1",
            "OPENAI_API_KEY": key,
        }

    @property
    def faults(self) -> list[str]:
        return [f"{asked.api}: {fault}" for asked in self.requests for fault in asked.faults]

    def take(self, api: Api, key: str, body: Object) -> Asked:
        """Check a request, look it up in the cache, and keep both."""
        with self._lock:
            found = faults(api, body)
            prefix = [] if found else [_text(element) for element in prefix_of(api, body)]
            tokens = sum(map(_tokens, prefix))
            if self.window is not None and tokens > self.window:
                found.append(f"prompt is too long: {tokens} tokens > {self.window} maximum")
            cached = 0 if found else self._look_up(api, body, prefix)
            asked = Asked(api, key, body, found, prefix, tokens, cached, self.on_request(key))
            self.requests.append(asked)
            return asked

    def _look_up(self, api: Api, body: Object, prefix: list[str]) -> int:
        """The tokens of the longest prefix that is in the cache. The request's own are kept."""
        digest, total = hashlib.sha256(f"{api} {body['model']}".encode()), 0
        hashes, totals = [], []
        for text in prefix:
            digest.update(text.encode())
            total += _tokens(text)
            hashes.append(digest.hexdigest())
            totals.append(total)
        written = set(range(len(prefix)))
        if api == "anthropic":
            written = _breakpoints(body)
        read = 0
        for end in written:
            back = range(max(0, end - _LOOKED_BACK), end + 1)
            read = max([read, *(totals[at] for at in back if hashes[at] in self._cache)])
        self._cache |= {hashes[at] for at in written if totals[at] >= _LEAST_CACHED}
        return read

    def answer(self, asked: Asked) -> tuple[Object, list[Object], Object]:
        """What is answered: the facts of the message, its blocks, and its usage."""
        blocks = []
        with self._lock:
            for block in self.script(asked.api, asked.body):
                block = dict(block)
                if block["type"] == "thinking":
                    block["signature"] = seal(asked.body["model"], block["thinking"])
                if block["type"] == "tool_use":
                    block.setdefault("id", f"call_{next(self._numbers)}")
                blocks.append(block | {"number": str(next(self._numbers))})
            facts = {"id": f"id_{next(self._numbers)}", "model": asked.body["model"]}
        return facts, blocks, {"input": asked.tokens, "cached": asked.cached, "output": 9}

    def events(self, asked: Asked) -> list[Object]:
        """The events of an answer."""
        return list(_EVENTS[asked.api](*self.answer(asked)))


def _breakpoints(body: Object) -> set[int]:
    elements = prefix_of("anthropic", body)
    found = {index for index, element in enumerate(elements) if "cache_control" in element}
    return found | ({len(elements) - 1} if body.get("cache_control") else set())


def _text(element: Object) -> str:
    return json.dumps({key: kept for key, kept in element.items() if key != "cache_control"})


def _tokens(text: str) -> int:
    return len(text) // 4


@contextmanager
def model_server(script: Script, *, window: int | None = None) -> Iterator[ModelServer]:
    """Serve a script on loopback."""
    model = ModelServer(script, window=window)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            data = self.rfile.read(length := int(self.headers["Content-Length"]))
            if len(data) < length:  # the agent was killed
                raise ConnectionAbortedError
            body = json.loads(data)
            secret = self.headers["Authorization"] or self.headers["x-api-key"]
            asked = model.take(_APIS[self.path], secret.removeprefix("Bearer "), body)
            try:
                self.respond(asked)
            except (Cut, ConnectionError):
                self.close_connection = True

        def respond(self, asked: Asked) -> None:
            if asked.faults:
                return self.whole(400, _error("invalid_request_error", "; ".join(asked.faults)))
            fault = model.next_fault()
            if fault == "overloaded":
                return self.whole(529, _error("overloaded_error", "Overloaded"))
            if not asked.body.get("stream"):
                return self.whole(200, _WHOLE[asked.api](*model.answer(asked)))
            events = model.events(asked)
            return self.stream(asked, events, fault, break_at=len(events) * 2 // 3)

        def stream(
            self, asked: Asked, events: list[Object], fault: Fault | None, break_at: int
        ) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for index, event in enumerate(events):
                if fault is not None and index >= break_at:
                    if fault == "error":
                        self.chunk(_sse(asked.api, _error("api_error", "Internal server error")))
                    raise Cut
                self.chunk(_sse(asked.api, event))
                model.on_event(asked.key)
            if asked.api == "chat":
                self.chunk("data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

        def chunk(self, text: str) -> None:
            data = text.encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

        def whole(self, status: int, body: Object) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("retry-after-ms", "1")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exception(), ConnectionError):  # the agent was killed
                super().handle_error(request, client_address)

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        model.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield model
        finally:
            server.shutdown()


def _error(kind: str, message: str) -> Object:
    return {"type": "error", "error": {"type": kind, "message": message, "code": kind}}


def _sse(api: Api, event: Object) -> str:
    if api == "chat":
        return f"data: {json.dumps(event)}\n\n"
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


def _halves(text: str) -> Iterator[str]:
    yield from (text[: len(text) // 2], text[len(text) // 2 :])


def _calls(blocks: list[Object]) -> list[Object]:
    return [block for block in blocks if block["type"] == "tool_use"]


# Anthropic's Messages


def _message(facts: Object, blocks: list[Object], usage: Object) -> Object:
    content = [{key: kept for key, kept in block.items() if key != "number"} for block in blocks]
    tokens = {
        "input_tokens": usage["input"] - usage["cached"],
        "cache_read_input_tokens": usage["cached"],
        "cache_creation_input_tokens": 0,
        "output_tokens": usage["output"],
    }
    return {
        **facts,
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": "tool_use" if _calls(blocks) else "end_turn",
        "stop_sequence": None,
        "usage": tokens,
    }


_EMPTY: Final[dict[str, Object]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}


def _anthropic_events(facts: Object, blocks: list[Object], usage: Object) -> Iterator[Object]:
    whole = _message(facts, blocks, usage)
    yield {"type": "message_start", "message": whole | {"content": [], "stop_reason": None}}
    yield {"type": "ping"}
    for index, block in enumerate(whole["content"]):
        start = block | _EMPTY[block["type"]]
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in _anthropic_deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": usage["output"]}}
    yield {"type": "message_stop"}


def _anthropic_deltas(block: Object) -> Iterator[Object]:
    match block["type"]:
        case "text":
            yield from ({"type": "text_delta", "text": part} for part in _halves(block["text"]))
        case "thinking":
            for part in _halves(block["thinking"]):
                yield {"type": "thinking_delta", "thinking": part}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "tool_use":
            for part in _halves(json.dumps(block["input"])):
                yield {"type": "input_json_delta", "partial_json": part}


# OpenAI's Responses


def _items(blocks: list[Object]) -> list[Object]:
    """Blocks as items. Reasoning and the item after it have one number."""
    items: list[Object] = []
    number = ""
    for block in blocks:
        number = number or block["number"]
        if block["type"] == "thinking":
            number = f"r{number}"
            summary = [{"type": "summary_text", "text": block["thinking"]}]
            sealed = {"summary": summary, "encrypted_content": seal(f"rs_{number}")}
            items.append({"type": "reasoning", "id": f"rs_{number}", **sealed})
            continue
        if block["type"] == "text":
            part = {"type": "output_text", "text": block["text"], "annotations": []}
            about = {"role": "assistant", "status": "completed", "content": [part]}
            items.append({"type": "message", "id": f"msg_{number}", **about})
        else:
            about = {"name": block["name"], "arguments": json.dumps(block["input"])}
            call = {"type": "function_call", "id": f"fc_{number}", "call_id": block["id"]}
            items.append({**call, **about, "status": "completed"})
        number = ""
    return items


def _response(facts: Object, blocks: list[Object], usage: Object) -> Object:
    tokens = {
        "input_tokens": usage["input"],
        "input_tokens_details": {"cached_tokens": usage["cached"]},
        "output_tokens": usage["output"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage["input"] + usage["output"],
    }
    about = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None}
    state = {"object": "response", "created_at": 0, "status": "completed"}
    return {**facts, **state, **about, "output": _items(blocks), "usage": tokens}


def _responses_events(facts: Object, blocks: list[Object], usage: Object) -> Iterator[Object]:
    whole = _response(facts, blocks, usage)
    numbers = count()

    def event(kind: str, **fields: Any) -> Object:
        return {"type": f"response.{kind}", "sequence_number": next(numbers), **fields}

    begun = whole | {"output": [], "usage": None, "status": "in_progress"}
    yield event("created", response=begun)
    for index, item in enumerate(whole["output"]):
        where = {"output_index": index, "item_id": item["id"]}
        hollow = {"content": [], "summary": [], "arguments": "", "status": "in_progress"}
        start = item | {key: empty for key, empty in hollow.items() if key in item}
        yield event("output_item.added", output_index=index, item=start)
        match item["type"]:
            case "message":
                for part in _halves(item["content"][0]["text"]):
                    yield event("output_text.delta", content_index=0, delta=part, **where)
            case "function_call":
                for part in _halves(item["arguments"]):
                    yield event("function_call_arguments.delta", delta=part, **where)
            case "reasoning":
                for part in _halves(item["summary"][0]["text"]):
                    yield event(
                        "reasoning_summary_text.delta", summary_index=0, delta=part, **where
                    )
        yield event("output_item.done", output_index=index, item=item)
    yield event("completed", response=whole)


# OpenAI's Chat Completions


def _chat_usage(usage: Object) -> Object:
    return {
        "prompt_tokens": usage["input"],
        "prompt_tokens_details": {"cached_tokens": usage["cached"]},
        "completion_tokens": usage["output"],
        "total_tokens": usage["input"] + usage["output"],
    }


def _chat_calls(blocks: list[Object]) -> list[Object]:
    return [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
        }
        for block in _calls(blocks)
    ]


def _chat_text(blocks: list[Object]) -> str:
    return "".join(block["text"] for block in blocks if block["type"] == "text")


def _finish(blocks: list[Object]) -> str:
    return "tool_calls" if _calls(blocks) else "stop"


def _completion(facts: Object, blocks: list[Object], usage: Object) -> Object:
    message: Object = {"role": "assistant", "content": _chat_text(blocks) or None}
    if calls := _chat_calls(blocks):
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": _finish(blocks)}
    about = {"object": "chat.completion", "created": 0, "choices": [choice]}
    return {**facts, **about, "usage": _chat_usage(usage)}


def _chat_events(facts: Object, blocks: list[Object], usage: Object) -> Iterator[Object]:
    def chunk(delta: Object, finish: str | None = None) -> Object:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**facts, "object": "chat.completion.chunk", "created": 0, "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    for part in _halves(_chat_text(blocks)):
        if part:
            yield chunk({"content": part})
    for index, call in enumerate(_chat_calls(blocks)):
        opened = call["function"] | {"arguments": ""}
        yield chunk({"tool_calls": [call | {"index": index, "function": opened}]})
        for part in _halves(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield chunk({}, _finish(blocks))
    yield chunk({}) | {"choices": [], "usage": _chat_usage(usage)}


_WHOLE: Final = {"anthropic": _message, "responses": _response, "chat": _completion}
_EVENTS: Final = {
    "anthropic": _anthropic_events,
    "responses": _responses_events,
    "chat": _chat_events,
}
