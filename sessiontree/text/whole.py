"""An entry, or a message, as its whole text, with tool calls in short and images by their sizes."""

from __future__ import annotations

from sessiontree.core.entry import Entry
from sessiontree.core.message import Message, block_preview, blocks_of, preview_of, text_of
from sessiontree.text.preview import preview, shown


def text_of_message(message: Message) -> str:
    """The text of a message, with its tool calls and results in short."""
    parts = [block_preview(block) for block in blocks_of(shown(message))]
    parts.append(preview_of({key: value for key, value in message.items() if key != "content"}))
    if message.get("role") == "bashExecution":
        parts.append(str(message.get("output", "")))
    return "\n".join(part.rstrip() for part in parts if part.strip())


def text_of_entry(entry: Entry) -> str:
    """The text of an entry: of its message, its summary or its content; else its preview."""
    message, summary = entry.get("message"), entry.get("summary")
    if entry.type == "message" and isinstance(message, dict):
        return text_of_message(message)
    if isinstance(summary, str):
        return summary
    return text_of({"content": entry.get("content")}) or preview(entry)
