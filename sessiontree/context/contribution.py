"""What an entry contributes to a context by itself, and what an edit makes of it."""

from __future__ import annotations

from typing import Any

from sessiontree.core.entry import Entry
from sessiontree.core.message import Message, is_result_block, result_ids, role_of


def replaced(message: Message, replacement: Any) -> Message | None:
    """A message with what an edit puts in the place of its content; None where it drops it."""
    if not isinstance(replacement, dict):
        return None
    said = replacement.get("content")
    key = _content_key(message)
    if key is None:
        return {"role": role_of(message), "content": said}
    if isinstance(said, str) and result_ids(message) and message.get("role") == "user":
        said = _with_results_saying(message, said)
    edited = {**message, key: said}
    if "summary" in edited:
        edited["summary"] = said
    return edited


def _content_key(message: Message) -> str | None:
    """Where a message says what it says; None for an item that has no such place.

    A command that was run, and a result of Responses, say it as `output`. A call or a
    piece of reasoning there is sealed, or made of fields: other words are a message.
    """
    if "output" in message and "content" not in message:
        return "output"
    return "content" if "role" in message else None


def _with_results_saying(message: Message, text: str) -> list[Any]:
    """Blocks of results with another text, so that the calls stay answered."""
    return [{**block, "content": text} for block in message["content"] if is_result_block(block)]


def summary_message(role: str, entry: Entry) -> dict[str, Any]:
    """A summary as a message: `content` for any reader, `summary` as pi names it."""
    summary = entry.get("summary")
    text = summary if isinstance(summary, str) else ""
    message: dict[str, Any] = {"role": role, "content": text, "summary": text}
    for key in ("fromUuid", "mergedUuid", "tokensBefore"):
        if key in entry:
            message[key] = entry[key]
    return message


def custom_message(entry: Entry) -> dict[str, Any]:
    """A `custom_message` entry as a message of role `custom`."""
    keys = ("customType", "content", "display", "details")
    return {"role": "custom", **{key: entry[key] for key in keys if key in entry}}
