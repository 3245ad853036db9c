"""The media type of bytes, and bytes in base64 inside messages."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from typing import Any, Final

from sessiontree.core.handle import blob_of
from sessiontree.core.message import kind_of

UNKNOWN_BYTES: Final = "application/octet-stream"
TEXT: Final = "text/plain"
PDF: Final = "application/pdf"
IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The image types that models accept. They refuse a whole context for any other."""

_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", PDF),
)
_NEVER_IN_TEXT: Final = bytes({*range(32)} - {*b"\a\b\t\n\v\f\r\x1b"})


def media_type_of(content: bytes, by_name: str = UNKNOWN_BYTES) -> str:
    """The media type of content, from its first bytes or all of them.

    Bytes that begin as PNG, JPEG, GIF, PDF or WebP are of that type. UTF-8 without NUL is text; so
    is UTF-8 with a few wrong bytes, such as a log that two programs wrote to. `by_name`, the media
    type of the file's name, says which kind of text this is, or what other bytes are. It does not
    make text something else, as `.ts` would.
    """
    for signature, media_type in _SIGNATURES:
        if content.startswith(signature):
            return media_type
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    if not _is_utf_8(content):
        is_clean = len(content.translate(None, _NEVER_IN_TEXT)) == len(content)
        if not is_clean or text_in(content) is None:
            return by_name
    return by_name if is_text(by_name) else TEXT


def base_type(media_type: str | None) -> str:
    """A media type without its parameters, in lower case."""
    return (media_type or UNKNOWN_BYTES).partition(";")[0].strip().lower()


def is_text(media_type: str) -> bool:
    """True if content of a media type, given without parameters, is text."""
    if media_type.startswith("text/") or media_type.endswith(("+json", "+xml")):
        return True
    return media_type in ("application/json", "application/xml")


def _is_utf_8(content: bytes) -> bool:
    if b"\0" in content:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(content)  # its end may be cut off
    except UnicodeDecodeError:
        return False
    return True


def text_in(content: bytes) -> tuple[str, int] | None:
    """Text with U+FFFD for what is not UTF-8, and the number of those; None for other bytes."""
    try:
        return content.decode(), 0
    except UnicodeDecodeError:
        text = content.decode(errors="replace")
    wrong = text.count("\ufffd") - content.count("\ufffd".encode())
    return (text, wrong) if wrong <= 0.1 * len(content) else None  # above that, bytes are not text


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
            if isinstance(text, str) and text and (found := binary(key, text, part)):
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
    blob = blob_of(text)  # of a string that was spilled
    return (len(text.rstrip("=\n")) if blob is None else blob.size) * 3 // 4
