"""Embedded bytes: what a message holds in base64, such as an image, by media type and size."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from sessiontree.core.media import base_type
from sessiontree.core.message import kind_of

_MEDIA_TYPES: Final = ("mimeType", "media_type", "mime_type")
_PARTS: Final = ("source", "image_url", "file", "input_audio")
_CONTENT: Final = ("data", "base64", "image_url", "url", "file_data")
_NEEDED: Final = frozenset((*_PARTS, *_CONTENT))
_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)[^,\s]{0,100};base64,")


def left_out(media_type: str, size: int) -> str:
    """The text in place of bytes that cannot be searched."""
    return f"[{media_type}, {size:,} bytes, left out: it cannot be searched for secrets]"


def binary_in(block: Mapping[str, Any]) -> tuple[str, int] | None:
    """The media type and the size of the bytes in a content block, or None."""
    if _NEEDED.isdisjoint(block) or not (kind := kind_of(block)):
        return None
    parts = [block]
    within = (block.get(key) for key in _PARTS)
    parts += [part for part in within if isinstance(part, Mapping)]
    for part in parts:
        for key in _CONTENT:
            text = part.get(key)
            if isinstance(text, str) and (found := binary(key, text, part)) is not None:
                return found
    if isinstance(text := parts[-1].get("data"), str) and kind == "input_audio":
        return "audio", _decoded(text)
    return None


def binary(key: str | None, text: str, siblings: Mapping[str, Any]) -> tuple[str, int] | None:
    """The media type and the size of the bytes that a string holds in base64, or None."""
    if text.startswith("data:") and (match := _DATA_URL.match(text)):
        return match[1], _decoded(text[match.end() :])
    if key not in ("data", "base64"):
        return None
    named = next((siblings[name] for name in _MEDIA_TYPES if name in siblings), None)
    is_text = isinstance(named, str) and base_type(named).startswith("text/")
    if siblings.get("type") != "base64" and (is_text or (named is None and key == "data")):
        return None
    return base_type(named if isinstance(named, str) else None), _decoded(text)


def _decoded(text: str) -> int:
    return len(text.rstrip("=\n")) * 3 // 4
