"""Sealed thinking: what kind of seal it carries, and who made it.

The shapes: Anthropic's `thinking` with a `signature` and `redacted_thinking` with
`data`; OpenAI's `reasoning` and `compaction` items with `encrypted_content`; pi's
`thinking` with a `thinkingSignature`, which holds the seal of whatever API the
message came from: for OpenAI the whole item as JSON, for some the name of a field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessiontree.context.providers.part import Thinking
from sessiontree.context.providers.values import clean_value, object_in, text_or
from sessiontree.core.message import Message, kind_of


def maker_of(message: Message) -> str | None:
    """Whose seals an assistant message carries: `anthropic`, `openai`, or empty for others.

    None where the message does not tell: then the shape has to.
    """
    api, provider, model = (text_or(message.get(k)).lower() for k in ("api", "provider", "model"))
    if api:
        if "anthropic" in api or ("bedrock" in api and "claude" in model):
            return "anthropic"
        return "openai" if "responses" in api else ""
    if provider in ("anthropic", "openai"):
        return provider
    if "claude" in model:
        return "anthropic"
    return "" if provider else None


def thinking_in(block: Mapping[str, Any], maker: str | None) -> Thinking:
    """The thinking of a block or an item, in a message whose seals `maker` made."""
    kind = kind_of(block)
    if kind in ("reasoning", "compaction"):
        return _of_item(block)
    if kind == "redacted_thinking":
        made_by = "anthropic" if maker is None else maker
        return _made(Thinking("", text_or(block.get("data")), made_by, redacted=True))
    text = text_or(block.get("thinking"))
    signature = text_or(block.get("signature"))
    if signature:
        return _made(Thinking(text, signature, "anthropic" if maker is None else maker))
    stored = text_or(block.get("thinkingSignature"))
    item = object_in(stored) if stored.startswith("{") else None
    if item is not None and kind_of(item) == "reasoning":
        return _of_item(item)
    made_by = "anthropic" if maker is None else maker
    if made_by != "anthropic":
        return Thinking(text, "", "")
    if block.get("redacted"):
        return _made(Thinking("", stored, made_by, redacted=True))
    return _made(Thinking(text, stored, made_by))


def _made(thinking: Thinking) -> Thinking:
    """The thinking, or its text alone where no seal of a known maker is on it."""
    sound = thinking.seal and thinking.maker == "anthropic"
    return thinking if sound else Thinking(thinking.text, "", "")


def _of_item(item: Mapping[str, Any]) -> Thinking:
    sealed = text_or(item.get("encrypted_content"))
    kept: dict[str, Any] = {"type": kind_of(item), "id": text_or(item.get("id"))}
    if kept["type"] == "reasoning":
        summary = item.get("summary")
        kept["summary"] = [
            {"type": "summary_text", "text": text_or(piece.get("text"))}
            for piece in (summary if isinstance(summary, list) else ())
            if isinstance(piece, Mapping)
        ]
    kept["encrypted_content"] = sealed
    made_by = "openai" if sealed else ""
    return Thinking("", sealed, made_by, item=clean_value(kept), told=_told(item))


def _told(item: Mapping[str, Any]) -> str:
    """The texts of a reasoning item: its summary, and the thought where that is given too."""
    pieces = (
        text_or(piece.get("text"))
        for key in ("summary", "content")
        if isinstance(item.get(key), list)
        for piece in item[key]
        if isinstance(piece, Mapping)
    )
    return "\n\n".join(piece for piece in pieces if piece)
