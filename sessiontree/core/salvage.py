"""Fragments: what a line still holds that is no JSON.

Writers that were cut off leave the beginning of an object, and whoever writes
next without a newline puts an entry right behind it. Taken apart, such a line is
whole objects, torn fragments, and what is neither.

A torn fragment is the beginning of an object that breaks off, at the end of the
line or where a whole entry was written behind it. Where that entry could as well be a
value inside the fragment, nothing tells them apart, and they stay together. What
ceases to be JSON in any other way (a flipped bit, zeros in the middle) is no
fragment: somebody may know what it said.

Invariants: a piece holds bytes of the line as they stand there, in their order;
whole objects are never lost; taking a piece apart again changes nothing.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from sessiontree.core.codec import CRC_LENGTH, check_seal


class Parts(NamedTuple):
    """A line taken apart.

    Attributes:
        pieces: what is to stay, each to stand on a line of its own.
        entries: how many of the pieces are whole objects.
        torn: the bytes of the fragments that were left out.
    """

    pieces: list[bytes]
    entries: int
    torn: int


def take_apart(line: bytes) -> Parts:
    """The parts of a line that is no JSON."""
    text = line.rstrip(b"\0\r").decode("utf-8", "surrogateescape") + _END
    broken = _Broken(text)
    pieces: list[bytes] = []
    entries = torn = 0
    at = _after_gap(text, 0)
    while at < len(text) - 1:
        found, end = broken.object_at(at)
        is_torn = False
        if found is not None:
            entries += 1
        else:
            end, is_torn = broken.fragment_at(at, end)
        piece = text[at:end].encode("utf-8", "surrogateescape")
        piece = piece if is_torn else piece.rstrip(b"\0\r")
        if is_torn:
            torn += len(piece)
        elif found is None and len(piece) < len(line):  # alone it may tell more
            alone = take_apart(piece)
            pieces += alone.pieces
            entries += alone.entries
            torn += alone.torn
        else:
            pieces.append(piece)
        at = _after_gap(text, end)
    return Parts(pieces, entries, torn)


class _Broken:
    """Reads a text that is no JSON as a whole. `_END` stands behind it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end = len(text) - 1
        self._last: Any = None
        self._decode = json.JSONDecoder(
            object_hook=self._note, parse_int=str, parse_float=str
        ).raw_decode

    def _note(self, completed: dict[str, Any]) -> dict[str, Any]:
        self._last = completed
        return completed

    def object_at(self, at: int) -> tuple[dict[str, Any] | None, int]:
        """The object at a place and its end; or None, and where the text ceases to be JSON."""
        size = _FIRST_LOOK
        while True:  # an error costs all of the text that it speaks of, so it is given little
            is_rest = at + size >= self._end
            part = self._text[at:] if is_rest else self._text[at : at + size] + _END
            self._last = None
            try:
                value, length = self._decode(part)
            except json.JSONDecodeError as error:
                if is_rest or not _UNFINISHED.fullmatch(part, error.pos, size):
                    return None, at + error.pos
            except RecursionError:
                return None, at
            else:
                return (value, at + length) if isinstance(value, dict) else (None, at)
            size *= 8

    def fragment_at(self, at: int, wrong: int) -> tuple[int, bool]:
        """The end of what is no object, and whether it is torn.

        Args:
            at: where it starts.
            wrong: where it ceases to be JSON, as `object_at` has just said.
        """
        text, end = self._text, self._end
        starts_as_one = text[at] == "{"
        if _UNFINISHED.fullmatch(text, wrong, end):
            return end, starts_as_one and not self._may_hold_an_entry()
        behind = _BEHIND.match(text, wrong)
        for start in (behind.end() - 1 if behind else at, text.rfind("{", at, wrong)):
            if start > at and self._is_entry_at(start):
                return start, starts_as_one
        return end, False

    def _may_hold_an_entry(self) -> bool:
        """Whether a text that breaks off ends in an entry, or is one but for its last bytes."""
        text, end = self._text, self._end
        if text.startswith(_CRC_KEY, end - CRC_LENGTH):
            return True
        return text[end - 1] == "}" and _is_entry(self._last)

    def _is_entry_at(self, start: int) -> bool:
        """Whether a whole entry stands here, and behind it nothing or the next."""
        found, end = self.object_at(start)
        if not _is_entry(found):
            return False
        wrong: list[str] = []
        line = self._text[start:end].encode("utf-8", "surrogateescape")
        check_seal(line, 0, lambda kind, offset, cause: wrong.append(kind))
        after = _after_gap(self._text, end)
        return "crc" not in wrong and (after == self._end or self._text[after] == "{")


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str) and "uuid" in value


def _after_gap(text: str, at: int) -> int:
    """The place after what may stand between two objects and carries nothing."""
    gap = _GAP.match(text, at)
    return gap.end() if gap else at


_END: Final = "\x01"
"""Put behind a text: it is never JSON, so a text that breaks off goes wrong right there."""

_FIRST_LOOK: Final = 4096
_CRC_KEY: Final = ',"crc":"'
_GAP: Final = re.compile("[ \t\r\v\f\0\ufeff]*")

_UNFINISHED: Final = re.compile(
    r"(?:-|\.|[eE][+-]?|t(?:ru?)?|f(?:als?|a)?|n(?:ul?)?|\\|\\?u[0-9a-fA-F]{0,3})?"
)
"""What is left of a text that breaks off, from where a decoder gives it up."""

_BEHIND: Final = re.compile("[^{\0]{0,7}\0*{")
"""From where a fragment ceases to be JSON to the entry behind it, if that lies ahead."""
