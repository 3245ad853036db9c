"""The layout that Gemini CLI writes, in which a message is found without decoding the file.

In the log each line is a message. A document is `JSON.stringify(chat, null, 2)`: no JSON
string holds a newline, so the indent of a line shows its depth, and the message around a
line is found by its indent.

Invariant: a result is the text between the lines that begin and end one message of the
list, in a document where each message has an id of its own; a repeated id changes the
messages between. For anything else the result is None: not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree.agents.base import Place

_LIST: Final = b'\n  "messages": [\n'
_BEGIN: Final = b"\n    {\n"
_END: Final = b"\n    }"
_BEFORE: Final = (b"\n    },", _LIST.removesuffix(b"\n"))
_AFTER: Final = (b"," + _BEGIN, b"\n  ]")
_ID: Final = b'\n      "id": '
_INDENT: Final = len(b"    ")

_OPENING: Final = 4096
"""Bytes that are enough to see what a response holds."""

_RESPONSE: Final = b'"functionResponse"'
_OUTPUT: Final = re.compile(
    _RESPONSE + rb'\s*:\s*{\s*(?:"(?:id|name)"\s*:\s*"[^"\\]*"\s*,\s*)*'
    rb'"response"\s*:\s*{\s*"output"\s*:\s*"'
)


def messages_with(lines: Iterable[int], document: bytes) -> Iterator[tuple[Place, bytes] | None]:
    """The messages that hold one of the lines, given by their offsets in order, and their places.

    None, once and last, if a line is not known to be part of one message.
    """
    ids: frozenset[bytes] | None = None
    end = counted = 0
    number = 1
    for start in lines:
        if start < end:
            continue  # part of the message just given
        begin = document.rfind(_BEGIN, 0, start)
        end = document.find(_END, begin + 1) + len(_END)
        # A message of the list, or the list's end, is on both sides of a message.
        is_listed = document.endswith(_BEFORE, 0, begin) and document.startswith(_AFTER, end)
        if begin < 0 or end <= start or not is_listed:
            yield None
            return
        at = begin + 1 + _INDENT
        message = document[at:end]
        ids = _ids_once(document) if ids is None else ids
        if next(_ids(message), b"") not in ids:
            yield None
            return
        number += stringzilla.count(memoryview(document)[counted:at], b"\n")
        counted = at
        yield Place(0, number, at), message


def is_plain_log(lines: Iterable[bytes]) -> bool:
    """Whether a log has each message and result once; `lines` are all but the first."""
    ids: set[str] = set()
    for line in filter(None, lines):
        try:
            found = _decode_line(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        if found.id in ids or (found.change is not None and b'"messages"' in bytes(found.change)):
            return False
        if found.type == "user" and _RESPONSE in line:
            return False  # it depends on the calls above it
        if found.id is not None:
            ids.add(found.id)
    return True


class _Line(msgspec.Struct, gc=False):
    id: str | None = None
    type: str | None = None
    change: msgspec.Raw | None = msgspec.field(default=None, name="$set")


_decode_line: Final = msgspec.json.Decoder(_Line).decode


class Responses:
    """Finds the responses of tools in a chat that is read in blocks of whole lines.

    The text of a response that holds more than its output is JSON made anew, so a search
    of the file's bytes does not find it.
    """

    def __init__(self) -> None:
        self._begun = b""

    def structured(self, block: bytearray | bytes, end: int) -> Iterator[tuple[int, int]]:
        """The start and end of a line of each message with such a response."""
        searched = memoryview(block)[:end]
        begun, self._begun = self._begun, b""
        if begun and _OUTPUT.match(begun + bytes(searched[:_OPENING])) is None:
            yield _line_at(block, 0, end)
        at = stringzilla.find(searched, _RESPONSE)
        while at >= 0:
            following = stringzilla.find(searched, _RESPONSE, at + len(_RESPONSE))
            if _OUTPUT.match(searched, at) is None:
                start, stop = _line_at(block, at, end)
                is_cut = following < 0 and end - at < _OPENING
                if is_cut and block.endswith(b"{", start, stop):
                    self._begun = bytes(searched[at:])
                else:
                    yield start, stop
            at = following


def _line_at(block: bytearray | bytes, at: int, end: int) -> tuple[int, int]:
    stop = block.find(b"\n", at, end)
    return block.rfind(b"\n", 0, at) + 1, end if stop < 0 else stop


def first_message(head: bytes) -> Iterator[bytes]:
    """The first message, if the start of a document holds it whole."""
    at = head.find(_LIST.removesuffix(b"\n") + _BEGIN)
    end = head.find(_END, at + len(_LIST) + 1)
    if 0 <= at < end:
        yield head[at + len(_LIST) + _INDENT : end + len(_END)]


def _ids_once(document: bytes) -> frozenset[bytes]:
    """The ids of the messages; none if one repeats."""
    ids = list(_ids(document))
    once = frozenset(ids)
    return once if len(once) == len(ids) else frozenset()


def _ids(part: bytes) -> Iterator[bytes]:
    at = stringzilla.find(part, _ID)
    while at >= 0:
        stop = part.find(b"\n", at + len(_ID))
        stop = len(part) if stop < 0 else stop
        yield part[at + len(_ID) : stop].rstrip(b",")
        at = stringzilla.find(part, _ID, stop)
