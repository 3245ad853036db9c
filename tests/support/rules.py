"""What each provider's API accepts, by its published rules and its refusals.

Written from the APIs' references alone; shares nothing with what it judges. Each
function gives why a request would be refused, or None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

FIT = re.compile(r"[a-zA-Z0-9_-]+")
IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
DATA_URL = re.compile(r"data:([a-z]+/[a-z0-9.+-]+);base64,(.*)", re.DOTALL)


class Refused(Exception):
    """Why a request is refused."""


def check(holds: object, why: str) -> None:
    if not holds:
        raise Refused(why)


def fault(judge: Callable[[dict[str, Any]], None], params: Any) -> str | None:
    try:
        json.dumps(params, ensure_ascii=False, allow_nan=False).encode()
        judge(params)
    except (Refused, ValueError) as error:
        return str(error) or "refused"
    return None


def keys(value: dict[str, Any], needed: str, allowed: str = "") -> None:
    check(isinstance(value, dict), f"{value!r} is no object")
    missing = set(needed.split()) - set(value)
    extra = set(value) - set(needed.split()) - set(allowed.split())
    check(not missing and not extra, f"{value.get('type')}: missing {missing}, extra {extra}")


def words(text: Any) -> None:
    check(isinstance(text, str) and text.strip(), f"{text!r} is no text with something in it")


def fit(text: Any, limit: int) -> None:
    check(isinstance(text, str) and FIT.fullmatch(text), f"{text!r} is no fit name or id")
    check(len(text) <= limit, f"{text!r} has more than {limit} characters")


def base64(data: Any) -> None:
    check(isinstance(data, str) and data and BASE64.fullmatch(data), "no base64")


# Anthropic


def anthropic(params: dict[str, Any]) -> None:
    keys(params, "messages", "system")
    if "system" in params:
        words(params["system"])
    messages = params["messages"]
    ids: set[str] = set()
    hosted: set[str] = set()
    waiting: list[str] = []
    for place, message in enumerate(messages):
        keys(message, "role content")
        check(message["role"] == ("assistant" if place % 2 else "user"), "roles do not alternate")
        blocks = message["content"]
        check(isinstance(blocks, list) and blocks, "an empty message")
        if message["role"] == "assistant":
            waiting = _anthropic_assistant(blocks, ids, hosted)
            check(not hosted or waiting or place == len(messages) - 1, "a hosted call alone")
        else:
            _anthropic_user(blocks, waiting)
            waiting = []
    check(not waiting, "tool_use ids were found without tool_result blocks immediately after")


def _anthropic_assistant(
    blocks: list[dict[str, Any]], ids: set[str], hosted: set[str]
) -> list[str]:
    calls: list[str] = []
    for block in blocks:
        kind = block["type"]
        if kind == "tool_use":
            keys(block, "type id name input", "caller cache_control toolset_name")
            fit(block["id"], 64)
            fit(block["name"], 64)
            check(isinstance(block["input"], dict), "tool_use.input is no object")
            check(block["id"] not in ids, "tool_use ids must be unique")
            ids.add(block["id"])
            calls.append(block["id"])
        elif kind == "server_tool_use":
            keys(block, "type id name input")
            hosted.add(block["id"])
        elif kind == "web_search_tool_result":
            keys(block, "type tool_use_id content")
            check(block["tool_use_id"] in hosted, "a hosted result without its call")
            hosted.remove(block["tool_use_id"])
        elif kind == "thinking":
            keys(block, "type thinking signature")
            check(block["signature"], "thinking without a signature")
        elif kind == "redacted_thinking":
            keys(block, "type data")
            check(block["data"], "redacted thinking without data")
        else:
            check(kind == "text", f"an assistant's {kind}")
            _anthropic_text(block)
    last = blocks[-1]
    check("thinking" not in last["type"], "the final block cannot be thinking")
    if last["type"] == "text":
        check(last["text"] == last["text"].rstrip(), "final text ends with white space")
    return calls


def _anthropic_user(blocks: list[dict[str, Any]], waiting: list[str]) -> None:
    results = [block for block in blocks if block["type"] == "tool_result"]
    check(blocks[: len(results)] == results, "tool results are not first")
    check([r["tool_use_id"] for r in results] == waiting, "results do not answer the calls")
    for block in blocks:
        if block["type"] != "tool_result":
            _anthropic_shown(block)
            continue
        keys(block, "type tool_use_id", "content is_error")
        if "content" in block:
            check(isinstance(block["content"], list) and block["content"], "empty result content")
            for part in block["content"]:
                _anthropic_shown(part)
                failed = block.get("is_error")
                check(not failed or part["type"] == "text", "an error with more than text")


def _anthropic_text(block: dict[str, Any]) -> None:
    keys(block, "type text", "cache_control citations")
    words(block["text"])


def _anthropic_shown(block: dict[str, Any]) -> None:
    if block["type"] == "text":
        _anthropic_text(block)
        return
    check(block["type"] in ("image", "document"), f"a user's {block['type']}")
    keys(block, "type source", "cache_control title context citations")
    source = block["source"]
    if source["type"] == "base64":
        keys(source, "type media_type data")
        allowed = IMAGES if block["type"] == "image" else {"application/pdf"}
        check(source["media_type"] in allowed, f"media type {source['media_type']}")
        base64(source["data"])
    elif source["type"] == "url":
        keys(source, "type url")
        check(source["url"].lower().startswith("https://"), "only https")
    else:
        keys(source, "type file_id")
        check(source["type"] == "file", "an unknown source")


# OpenAI


def _data_or_web(url: Any, types: set[str]) -> None:
    check(isinstance(url, str), "no address")
    if match := DATA_URL.fullmatch(url):
        check(match[1] in types, f"media type {match[1]}")
        base64(match[2])
    else:
        check(url.lower().startswith(("http://", "https://")), f"no address: {url[:40]}")


def _arguments(text: Any) -> None:
    check(isinstance(text, str), "arguments are no text")
    check(isinstance(json.loads(text), dict), "arguments are no JSON object")


def chat(params: dict[str, Any]) -> None:
    keys(params, "messages")
    waiting: list[str] = []
    ids: set[str] = set()
    last = ""
    for place, message in enumerate(params["messages"]):
        role = message["role"]
        if role == "tool":
            keys(message, "role content tool_call_id")
            check(waiting and waiting.pop(0) == message["tool_call_id"], "a result out of place")
            words(message["content"])
            last = role
            continue
        check(not waiting, "tool_call_ids did not have response messages")
        check(role != "assistant" or role != last, "two answers in a row")
        last = role
        if role == "assistant":
            waiting = _chat_assistant(message, ids)
            continue
        keys(message, "role content")
        check(role in ("user", "developer") or (role == "system" and place == 0), f"role {role}")
        if isinstance(message["content"], str):
            words(message["content"])
            continue
        check(message["content"], "empty content")
        for part in message["content"]:
            _chat_part(part)
    check(not waiting, "tool_call_ids did not have response messages")


def _chat_assistant(message: dict[str, Any], ids: set[str]) -> list[str]:
    keys(message, "role content", "tool_calls")
    content, calls = message["content"], message.get("tool_calls")
    check(content is not None or calls, "an empty assistant message")
    if isinstance(content, list):
        check(content, "empty content")
        for part in content:
            check(part["type"] == "text", f"an assistant's {part['type']}")
            words(part["text"])
    elif content is not None:
        words(content)
    check(calls is None or calls, "empty tool_calls")
    for call in calls or ():
        fit(call["id"], 40)
        check(call["id"] not in ids, "an id given twice")
        ids.add(call["id"])
        if call["type"] == "custom":
            keys(call, "id type custom")
            keys(call["custom"], "name input")
            fit(call["custom"]["name"], 64)
            check(isinstance(call["custom"]["input"], str), "input is no text")
        else:
            keys(call, "id type function")
            keys(call["function"], "name arguments")
            fit(call["function"]["name"], 64)
            _arguments(call["function"]["arguments"])
    return [call["id"] for call in calls or ()]


def _chat_part(part: dict[str, Any]) -> None:
    if part["type"] == "text":
        keys(part, "type text")
        words(part["text"])
    elif part["type"] == "image_url":
        keys(part, "type image_url")
        keys(part["image_url"], "url", "detail")
        _data_or_web(part["image_url"]["url"], IMAGES)
    else:
        check(part["type"] == "file", f"a part {part['type']}")
        keys(part, "type file")
        if "file_id" not in part["file"]:
            keys(part["file"], "filename file_data")
            _data_or_web(part["file"]["file_data"], {"application/pdf"})


def responses(params: dict[str, Any]) -> None:
    keys(params, "input", "instructions")
    if "instructions" in params:
        words(params["instructions"])
    items = params["input"]
    call_ids: dict[str, str] = {}
    used: set[str] = set()
    waiting: list[str] = []
    for place, item in enumerate(items):
        kind = item["type"]
        if kind == "local_shell_call_output":
            keys(item, "type id output", "status")
            check(waiting and waiting.pop(0) == item["id"], "an output out of place")
            continue
        if "id" in item:
            check(0 < len(item["id"]) <= 64, "an item's id is empty or too long")
            check(item["id"] not in used, f"duplicate item {item['id']}")
            used.add(item["id"])
        if kind.endswith("_call_output"):
            keys(item, "type call_id output")
            check(waiting and waiting.pop(0) == item["call_id"], "an output out of place")
            check(f"{call_ids[item['call_id']]}_output" == kind, "an output of another kind")
            _responses_content(item["output"])
            continue
        if kind in ("function_call", "custom_tool_call"):
            text = "arguments" if kind == "function_call" else "input"
            keys(item, f"type call_id name {text}", "id status")
            fit(item["call_id"], 64)
            fit(item["name"], 64)
            check(item["call_id"] not in call_ids, "a call_id given twice")
            call_ids[item["call_id"]] = kind
            waiting.append(item["call_id"])
            if kind == "function_call":
                _arguments(item["arguments"])
            continue
        if kind == "local_shell_call":
            keys(item, "type id call_id action status")
            call_ids[item["call_id"]] = kind
            waiting.append(item["call_id"])
            continue
        if kind in ("reasoning", "compaction"):
            _responses_sealed(item, items[place + 1 :])
            continue
        if item["role"] != "assistant":
            check(not waiting, "no tool output found for function call")
        _responses_message(item)
    check(not waiting, "no tool output found for function call")


def _responses_sealed(item: dict[str, Any], rest: Sequence[dict[str, Any]]) -> None:
    check(item["encrypted_content"], "nothing encrypted")
    if item["type"] == "compaction":
        keys(item, "type id encrypted_content")
        return
    keys(item, "type id summary encrypted_content")
    for piece in item["summary"]:
        keys(piece, "type text")
    then = next((i for i in rest if i["type"] != "compaction"), None)
    led = then is not None and (then["type"].endswith("_call") or then.get("role") == "assistant")
    check(led, "reasoning without its required following item")


def _responses_message(item: dict[str, Any]) -> None:
    check(item["type"] == "message", f"an item {item['type']}")
    if item["role"] == "assistant":
        keys(item, "type role content", "id status phase")
        if isinstance(item["content"], str):
            words(item["content"])
            return
        check("id" in item and "status" in item and item["content"], "an output without its id")
        for part in item["content"]:
            if part["type"] == "refusal":
                keys(part, "type refusal")
                continue
            keys(part, "type text annotations", "logprobs")
            check(part["type"] == "output_text", f"an assistant's {part['type']}")
            words(part["text"])
        return
    keys(item, "type role content")
    check(item["role"] in ("user", "developer"), f"role {item['role']}")
    _responses_content(item["content"])


def _responses_content(content: Any) -> None:
    if isinstance(content, str):
        words(content)
        return
    check(content, "empty content")
    for part in content:
        if part["type"] == "input_text":
            keys(part, "type text")
            words(part["text"])
        elif part["type"] == "input_image":
            keys(part, "type detail", "image_url file_id")
            if "image_url" in part:
                _data_or_web(part["image_url"], IMAGES)
        else:
            check(part["type"] == "input_file", f"a part {part['type']}")
            if "file_data" in part:
                keys(part, "type filename file_data")
                _data_or_web(part["file_data"], {"application/pdf"})


JUDGES = {"anthropic": anthropic, "responses": responses, "chat": chat}


def strings_in(value: Any) -> Iterator[str]:
    """Every string of a request."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings_in(inner)
