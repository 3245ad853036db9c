"""An entry in one short line, for people to recognise it by."""

from __future__ import annotations

import unicodedata
from typing import Final

from sessiontree.core.contents import handle_text
from sessiontree.core.entry import SUMMARIES, Entry
from sessiontree.core.message import block_preview, preview_of, role_of

WIDTH: Final = 60
_LOOK: Final = 2000
"""Characters looked at for a preview; a screenshot is not searched to its end."""


def one_line(text: str, width: int = WIDTH) -> str:
    """Text on one line: line breaks as ↵, control characters left out, cut at `width`."""
    shown = printable(
        text[:_LOOK].strip().replace("\r\n", "\n").replace("\n", "↵").replace("\t", " ")
    )
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def printable(text: str) -> str:
    """Text without the characters that drive a terminal, line breaks and tabs kept."""
    if text.isprintable():
        return text
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in _DRIVING)


_DRIVING: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")


def preview(entry: Entry) -> str:
    """An entry's content in a few words, on one line."""
    return one_line(_words(entry))


def _words(entry: Entry) -> str:
    kind = entry.type
    if kind == "message":
        message = entry.message_as_stored
        return preview_of(message) if isinstance(message, dict) else ""
    if kind in SUMMARIES or kind in ("compaction", "merge"):
        return _text(entry, "summary") or _text(entry, "mergedUuid")
    if kind == "handle":
        return handle_text(entry)
    if kind == "custom_message":
        return preview_of({"content": entry.as_stored.get("content")})
    if kind == "block":
        block = entry.as_stored.get("block")
        return block_preview(block) if isinstance(block, dict) else ""
    return " ".join(filter(None, (_text(entry, key) for key in _TELLING)))


_TELLING: Final = (
    "name",
    "note",
    "label",
    "provider",
    "modelId",
    "thinkingLevel",
    "customType",
    "cwd",
)


def _text(entry: Entry, key: str) -> str:
    value = entry.as_stored.get(key)
    return value if isinstance(value, str) else ""


def role(entry: Entry) -> str | None:
    """The role an entry speaks in; None for one that does not speak."""
    if entry.type == "message":
        message = entry.message_as_stored
        return role_of(message) if isinstance(message, dict) else None
    if entry.type in ("handle", "message_end"):
        found = entry.get("role")
        return found if isinstance(found, str) else None
    return {"block": "assistant", "custom_message": "custom"}.get(entry.type)
