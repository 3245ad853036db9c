"""What the APIs of Anthropic and OpenAI refuse, as a list of faults of one request.

Keys, types and literals are those of the SDKs (`shapes`). The other rules are written from the
APIs' documentation: calls and results are pairs, ids are unique, results come first, thinking and
reasoning come back whole and where they belong, and nothing is blank.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

from anthropic.types import message_create_params as anthropic_params
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import response_create_params as responses_params

from tests.examples.shapes import faults as faults_of_shape

Api = Literal["anthropic", "responses", "chat"]
Object = dict[str, Any]

_KEY: Final = b"only the model knows it"
_TYPES: Final = {
    "anthropic": (
        anthropic_params.MessageCreateParamsStreaming,
        anthropic_params.MessageCreateParamsNonStreaming,
    ),
    "responses": (
        responses_params.ResponseCreateParamsStreaming,
        responses_params.ResponseCreateParamsNonStreaming,
    ),
    "chat": (
        chat_params.CompletionCreateParamsStreaming,
        chat_params.CompletionCreateParamsNonStreaming,
    ),
}


def faults(api: Api, request: Object) -> list[str]:
    """Say why an API would refuse a request. An empty list is a valid request."""
    streaming, whole = _TYPES[api]
    found = faults_of_shape(request, streaming if request.get("stream") else whole)
    return found or list(_RULES[api](request))


def seal(*facts: str) -> str:
    """Sign what a model thought: only the model can, and it notices each change."""
    digest = hmac.new(_KEY, "\0".join(facts).encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


def _anthropic(request: Object) -> Iterator[str]:
    messages = request["messages"]
    if not messages:
        yield "messages: at least one message is required"
        return
    if messages[0]["role"] != "user":
        yield "messages.0: the first message must use the role user"
    if messages[-1]["role"] != "user":
        yield "messages: this model does not support prefill; the last message is the assistant's"
    thinking = request.get("thinking", {"type": "disabled"})
    if request["max_tokens"] <= thinking.get("budget_tokens", 0):
        yield "max_tokens must be greater than thinking.budget_tokens"
    yield from _cache_faults(request)
    yield from _blank_faults(blocks_of(request.get("system", "none")), "system")
    calls: list[str] = []
    seen: Counter[str] = Counter()
    for index, message in enumerate(messages):
        place, blocks = f"messages.{index}", blocks_of(message["content"])
        yield from _blank_faults(blocks, place)
        if not blocks:
            yield f"{place}: content must not be empty"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(calls):
            yield f"{place}: results {results} for the calls {calls} of the message before"
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            yield f"{place}: tool_result blocks must come first"
        if results and message["role"] != "user":
            yield f"{place}: only a user message has tool_result blocks"
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        seen.update(calls)
        if calls and message["role"] != "assistant":
            yield f"{place}: only an assistant message has tool_use blocks"
        for block in blocks:
            yield from _block_faults(block, place, request["model"])
    if calls:
        yield f"messages: the calls {calls} have no results"
    yield from (f"tool_use ids must be unique: {id}" for id, n in seen.items() if n > 1)
    if thinking["type"] != "disabled" and _last_calls(messages):
        first = _last_calls(messages)[0]["type"]
        if first not in ("thinking", "redacted_thinking"):
            yield f"messages.{len(messages) - 2}: expected thinking, but found {first}"


def _last_calls(messages: Sequence[Object]) -> list[Object]:
    """The blocks of the assistant's message whose results end a request; else none."""
    if len(messages) < 2 or messages[-2]["role"] != "assistant":
        return []
    blocks = blocks_of(messages[-2]["content"])
    return blocks if any(block["type"] == "tool_use" for block in blocks) else []


def _block_faults(block: Object, place: str, model: str) -> Iterator[str]:
    match block["type"]:
        case "tool_use" | "tool_result":
            id = block.get("id") or block["tool_use_id"]
            if not re.fullmatch(r"[a-zA-Z0-9_-]+", id):
                yield f"{place}: the id {id!r} has other characters than a-z, 0-9, _ and -"
            for part in blocks_of(block.get("content", [])):
                yield from _block_faults(part, place, model)
        case "thinking" if block["signature"] != seal(model, block["thinking"]):
            yield f"{place}: invalid signature in thinking block"
        case "image" if block["source"]["type"] == "base64":
            yield from _data_faults(block["source"]["data"], place)


def _data_faults(data: str, place: str) -> Iterator[str]:
    try:
        if not base64.b64decode(data, validate=True):
            yield f"{place}: the image is empty"
    except binascii.Error:
        yield f"{place}: the image is not base64"


def _blank_faults(blocks: Sequence[Object], place: str) -> Iterator[str]:
    for block in blocks:
        if block["type"] == "text" and not block["text"].strip():
            yield f"{place}: text content blocks must contain non-whitespace text"
        if block["type"] == "tool_result":
            yield from _blank_faults(blocks_of(block.get("content", [])), place)


def _cache_faults(request: Object) -> Iterator[str]:
    marked = [block for block in prefix_of("anthropic", request) if "cache_control" in block]
    if len(marked) > 4:
        yield f"a maximum of 4 blocks with cache_control may be provided, found {len(marked)}"
    if any(block.get("type") in ("thinking", "redacted_thinking") for block in marked):
        yield "thinking blocks take no cache_control"
    lives = [block["cache_control"].get("ttl", "5m") for block in marked]
    if lives != sorted(lives):  # "1h" sorts before "5m"
        yield "a cache_control with the ttl 1h must not come after one of 5m"


def _responses(request: Object) -> Iterator[str]:
    items = request.get("input") or []
    if isinstance(items, str):
        return
    if not items:
        yield "input must not be empty"
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    outputs = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    for id in set(calls) - set(outputs):
        yield f"no tool output found for function call {id}"
    for id in set(outputs) - set(calls):
        yield f"no tool call found for function call output with call_id {id}"
    ids = [item["id"] for item in items if item.get("id")]
    for id, count in (Counter(calls) + Counter(outputs) + Counter(ids)).items():
        if count > (2 if id in calls and id in outputs else 1):
            yield f"duplicate item {id}"
    open_calls: set[str] = set()
    reasoning: Object | None = None
    for index, item in enumerate(items):
        place = f"input.{index}"
        kind = item.get("type", "message")
        if kind == "function_call":
            open_calls.add(item["call_id"])
        elif kind == "function_call_output" and item["call_id"] not in open_calls:
            yield f"{place}: the output comes before its call"
        yield from _reasoning_faults(reasoning, item, place)
        reasoning = item if kind == "reasoning" else None
        is_stored = request.get("store") is not False
        if reasoning is not None and not (is_stored or reasoning.get("encrypted_content")):
            yield f"{place}: item {item.get('id')} not found: items are not persisted"
        for part in item.get("content") or ():
            if isinstance(part, dict) and part.get("type") == "input_image":
                yield from _url_faults(part["image_url"], place)
    if reasoning is not None:
        yield f"item {reasoning['id']} of type reasoning came without its required following item"


def _reasoning_faults(reasoning: Object | None, item: Object, place: str) -> Iterator[str]:
    """Reasoning comes directly before the item that the model made from it, and the reverse.

    The fake model names an item after the reasoning before it: `fc_12` and `rs_12`.
    """
    kind, id = item.get("type", "message"), item.get("id") or ""
    number = id.partition("_")[2]
    if kind == "reasoning" and item.get("encrypted_content") not in (None, seal(id)):
        yield f"{place}: the encrypted content of {id} could not be verified"
    if reasoning is not None and number != reasoning["id"].partition("_")[2]:
        yield f"{place}: {reasoning['id']} came without its required following item"
    if kind in ("message", "function_call") and number.startswith("r") and reasoning is None:
        yield f"{place}: {id} was provided without its required reasoning item"


def _chat(request: Object) -> Iterator[str]:
    messages = request["messages"]
    if not [message for message in messages if message["role"] != "system"]:
        yield "messages: there is nothing to answer"
    if messages and messages[-1]["role"] == "assistant":
        yield "messages: the last message is the assistant's"
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        place, role = f"messages.{index}", message["role"]
        if role == "tool":
            if message["tool_call_id"] not in open_calls:
                yield f"{place}: a tool message must follow the message with its call"
                continue
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            yield f"{place}: the calls {open_calls} have no tool messages"
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
        if len(open_calls) != len(set(open_calls)):
            yield f"{place}: two calls have one id: {open_calls}"
        if not message.get("content") and not open_calls:
            yield f"{place}: the message has neither content nor calls"
        for call in message.get("tool_calls") or ():
            yield from _argument_faults(call["function"]["arguments"], place)
        for part in message["content"] if isinstance(message.get("content"), list) else ():
            if part["type"] == "image_url":
                yield from _url_faults(part["image_url"]["url"], place)
    if open_calls:
        yield f"messages: the calls {open_calls} have no tool messages"


def _argument_faults(text: str, place: str) -> Iterator[str]:
    """Servers that fill a template with the arguments refuse what is not JSON."""
    try:
        json.loads(text)
    except ValueError:
        yield f"{place}: the arguments are not JSON: {text!r:.60}"


def _url_faults(url: str, place: str) -> Iterator[str]:
    if url.startswith("data:"):
        yield from _data_faults(url.partition(",")[2], place)


_RULES: Final[dict[Api, Callable[[Object], Iterator[str]]]] = {
    "anthropic": _anthropic,
    "responses": _responses,
    "chat": _chat,
}


def blocks_of(content: str | Sequence[Object]) -> list[Object]:
    """The blocks of a content, of which a text is one."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def prefix_of(api: Api, request: Object) -> list[Object]:
    """All that a model reads, in the order of its cache: tools, system, and each block."""
    found = [
        {"tool": tool["name"], **tool} for tool in request.get("tools") or () if "name" in tool
    ]
    found += [{"tool": tool} for tool in request.get("tools") or () if "name" not in tool]
    if api == "anthropic":
        found += [{"role": "system", **each} for each in blocks_of(request.get("system") or [])]
        for message in request["messages"]:
            found += [{"role": message["role"], **each} for each in blocks_of(message["content"])]
        return found
    if api == "chat":
        return found + list(request["messages"])
    found += [{"role": "system", "content": request.get("instructions")}]
    items = request["input"]
    return found + (blocks_of(items) if isinstance(items, str) else list(items))
