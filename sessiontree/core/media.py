"""The media type of bytes, from the bytes themselves."""

from __future__ import annotations

import codecs
from typing import Final

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
_MOST_WRONG: Final = 0.1  # wrong sequences per byte, above which bytes are not text
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
    """Whether content of a media type, given without parameters, is text."""
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
    return (text, wrong) if wrong <= _MOST_WRONG * len(content) else None
