"""Random histories of messages with calls and results, and what a provider accepts of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from sessiontree.core.message import Message

IDS = st.sampled_from(["a", "b", "call_0"])
SHAPES = ("pi", "anthropic", "chat", "responses")


def call(shape: str, *ids: str, said: str = "") -> dict[str, Any]:
    """A message that makes calls. A Responses item makes the first of them alone."""
    if shape == "pi":
        blocks = [{"type": "toolCall", "id": id, "name": "ls", "arguments": {}} for id in ids]
        return {"role": "assistant", "content": [{"type": "text", "text": said}, *blocks]}
    if shape == "anthropic":
        uses = [{"type": "tool_use", "id": id, "name": "ls", "input": {}} for id in ids]
        return {"role": "assistant", "content": uses}
    if shape == "chat":
        made = {"name": "ls", "arguments": "{}"}
        calls = [{"id": id, "type": "function", "function": made} for id in ids]
        return {"role": "assistant", "content": None, "tool_calls": calls}
    return {"type": "function_call", "call_id": ids[0], "name": "ls", "arguments": "{}"}


def result(shape: str, *ids: str, text: str = "ok", then: str = "") -> dict[str, Any]:
    """A message that brings results. Only Anthropic's brings more than one, or says more."""
    if shape == "pi":
        return {"role": "toolResult", "toolCallId": ids[0], "content": text}
    if shape == "anthropic":
        blocks: list[dict[str, Any]] = [
            {"type": "tool_result", "tool_use_id": id, "content": f"{text} {place}"}
            for place, id in enumerate(ids)
        ]
        return {"role": "user", "content": blocks + ([said(then)] if then else [])}
    if shape == "chat":
        return {"role": "tool", "tool_call_id": ids[0], "content": text}
    return {"type": "function_call_output", "call_id": ids[0], "output": text}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@st.composite
def histories(draw: st.DrawFn, shapes: Sequence[str] = SHAPES) -> list[Message]:
    """Up to ten messages, each different from all others, in one shape or in several."""
    messages: list[Message] = []
    mixed = draw(st.booleans())
    only = draw(st.sampled_from(shapes))
    for place in range(draw(st.integers(0, 10))):
        shape = draw(st.sampled_from(shapes)) if mixed else only
        kind = draw(st.sampled_from(["prompt", "answer", "call", "call", "result", "result"]))
        ids = draw(st.lists(IDS, min_size=1, max_size=3))
        if kind == "prompt":
            messages.append({"role": "user", "content": f"{place}"})
        elif kind == "answer":
            messages.append({"role": "assistant", "content": [said(f"{place}")]})
        elif kind == "call":
            messages.append(call(shape, *dict.fromkeys(ids), said=f"{place}"))
        else:
            then = draw(st.sampled_from(["", f"after {place}"]))
            brought = result(shape, *ids, text=f"{place}", then=then)
            if shape == "anthropic" and draw(st.booleans()):
                brought["content"].insert(0, said(f"before {place}"))
            messages.append(brought)
    return messages


def fault_of(messages: Sequence[Message]) -> str | None:
    """Why a provider would refuse these messages, or None. Shares nothing with the pairing."""
    waiting: list[str] = []
    spoken = items = False
    for place, message in enumerate(messages):
        results, others = _results_in(message)
        for id in results:
            if not waiting:
                return f"message {place}: a result for {id}, and no call before it"
            if id not in waiting or (waiting[0] != id and not items):
                return f"message {place}: the result for {id} is out of order"
            waiting.remove(id)
            if spoken:
                return f"message {place}: something was said before the result for {id}"
        blocks = message.get("content")
        if results and isinstance(blocks, list) and others:
            leading = [block.get("type") == "tool_result" for block in blocks]
            if leading != sorted(leading, reverse=True):
                return f"message {place}: something is said before a result"
        is_item = message.get("type") == "function_call"
        spoken = bool(others) and bool(waiting) and not is_item
        goes_on = is_item and items and messages[place - 1].get("type") == "function_call"
        if not results and waiting and not goes_on:
            return f"message {place}: {waiting} not answered before it"
        waiting += _calls_in(message)
        items = is_item or (items and bool(results))
        spoken = spoken and bool(waiting)
    return f"at the end: {waiting} not answered" if waiting else None


def _results_in(message: Message) -> tuple[list[str], int]:
    """The ids a message answers, and how much else it says."""
    if message.get("role") == "toolResult":
        return [message["toolCallId"]], 0
    if message.get("role") == "tool":
        return [message["tool_call_id"]], 0
    if message.get("type") == "function_call_output":
        return [message["call_id"]], 0
    blocks = message.get("content")
    if message.get("role") != "user" or not isinstance(blocks, list):
        return [], 1
    ids = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    return ids, len(blocks) - len(ids)


def _calls_in(message: Message) -> list[str]:
    if message.get("type") == "function_call":
        return [message["call_id"]]
    calls = [made["id"] for made in message.get("tool_calls") or []]
    blocks = message.get("content")
    if isinstance(blocks, list):
        calls += [block["id"] for block in blocks if block["type"] in ("toolCall", "tool_use")]
    return calls


def spoken_in(messages: Sequence[Message]) -> list[str]:
    """All that is neither call nor result, and each message with calls, in order."""
    told: list[str] = []
    for message in messages:
        blocks = message.get("content")
        if message.get("role") == "user" and isinstance(blocks, list):
            told += [block["text"] for block in blocks if block["type"] == "text"]
        elif not _results_in(message)[0]:
            told.append(repr(message))
    return told
