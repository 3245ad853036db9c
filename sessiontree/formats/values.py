"""Values: a line of another agent, read leniently and by the key.

Invariant: a value that is carried over keeps the bytes it was written with, unless
there is no reading it but by mending it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
import orjson

from sessiontree.core.codec import raw_json
from sessiontree.core.entry import decode_leniently
from sessiontree.core.message import text_of

_decode_values: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_string: Final = msgspec.json.Decoder(str).decode
_REFUSED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Values:
    """The keys of one JSON object, decoded one by one as they are asked for."""

    __slots__ = ("_line", "_raw")

    def __init__(self, raw: Mapping[str, bytes | msgspec.Raw], line: bytes | None = None) -> None:
        self._raw = raw
        self._line = line

    def __contains__(self, key: str) -> bool:
        return key in self._raw

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def raw(self, key: str) -> bytes:
        """The bytes of a value as written; those of `null` where there is none."""
        found = self._raw.get(key)
        if found is None:
            return b"null"
        return bytes(found)

    def kept(self, key: str) -> orjson.Fragment:
        """A value, to be written as it was."""
        return orjson.Fragment(self.raw(key))

    def text(self, key: str) -> str | None:
        """A value that is a string; None for any other."""
        if key not in self._raw:
            return None
        try:
            return _decode_string(self.raw(key))
        except _REFUSED:
            found = self.value(key)
            return found if isinstance(found, str) else None

    def value(self, key: str) -> Any:
        """A value, decoded."""
        return decode_leniently(self.raw(key))

    def inside(self, key: str) -> Values:
        """The keys of a value that is an object; no keys where it is none."""
        return values(self.raw(key)) or Values({})

    def whole(self) -> orjson.Fragment:
        """The whole object, to be written as it was."""
        return orjson.Fragment(self.text_of_whole())

    def text_of_whole(self) -> bytes:
        """The same as JSON."""
        if self._line is not None:
            return self._line
        pairs = (json.dumps(key).encode() + b":" + self.raw(key) for key in self._raw)
        return b"{" + b",".join(pairs) + b"}"


def values(line: bytes) -> Values | None:
    """The keys of a line; None where it is no JSON object."""
    bare = line.strip(b"\0").removeprefix(b"\xef\xbb\xbf").strip()
    if not (bare.startswith(b"{") and bare.endswith(b"}")):
        return None
    try:
        if b"\n" in bare:  # of a document over many lines; ours stand on one
            bare = msgspec.json.format(bare, indent=-1)
        return Values(_decode_values(bare), bare)
    except _REFUSED:
        pass
    parsed = decode_leniently(bare)
    if not isinstance(parsed, dict):
        return None
    try:
        return Values(raw_json(bare))
    except _REFUSED:
        pass
    try:
        anew = {key: json.dumps(value, allow_nan=False) for key, value in parsed.items()}
        return Values({key: text.encode() for key, text in anew.items()})
    except (ValueError, RecursionError):
        return Values({"text": orjson.dumps(bare.decode("utf-8", "replace"))})


def first_values(head: bytes) -> Iterator[Values]:
    """The objects at the start of a file, a last one that is cut short as far as it goes."""
    closing = b"}\n" if b"}\n" in head else b"\n"
    end = head.find(closing)
    while end >= 0:
        start = head.rfind(b"\n", 0, end) + 1
        found = _values_again(head[start : end + 1])
        if found is not None:
            yield found
        end = head.find(closing, end + 1)
    cut = leading_values(head[head.rfind(b"\n") + 1 :])
    if cut is not None:
        yield cut


_values_again: Final = lru_cache(maxsize=1)(values)
"""Each format asks for the first line to recognise a file, and then for its facts."""


def leading_values(start: bytes) -> Values | None:
    """The keys of an object of which the end may be missing; a value cut short is left out."""
    text = start.decode("utf-8", "replace").lstrip("\0\ufeff \t\r\n")
    if not text.startswith("{"):
        return None
    found: dict[str, bytes] = {}
    at = 1
    try:
        while True:
            at = _skip(text, at)
            key, at = _JSON.raw_decode(text, at)
            at = _skip(text, at) + 1
            at = _skip(text, at)
            end = _JSON.raw_decode(text, at)[1]
            if end == len(text):
                break
            if isinstance(key, str):
                found[key] = text[at:end].encode("utf-8", "replace")
            at = _skip(text, end)
            if text[at : at + 1] != ",":
                break
            at += 1
    except (json.JSONDecodeError, RecursionError):
        pass
    return Values(found)


_JSON: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\r\n]*")


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def whole_value(document: str, offset: int) -> bytes | None:
    """The bytes of the JSON value that starts at an offset of a document; None for none.

    Args:
        document: the bytes, each as the character of its number (Latin-1).
        offset: where the value starts.
    """
    try:
        end = _JSON.raw_decode(document, offset)[1]
    except (ValueError, RecursionError):
        return None
    return document[offset:end].encode("latin-1")


def prompt_text(message: Mapping[str, Any]) -> str | None:
    """The text of a user message, if it has any."""
    return text_of(message).strip() or None
