"""What the two ends of a session of ours tell: its head and its tail, of bounded size.

Windows are bytes of the file that start or end anywhere; only lines that lie whole in
one are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree.core.display import one_line
from sessiontree.core.entry import decode_object
from sessiontree.core.message import begins_turn, preview_of, role_of, slash_command, text_of
from sessiontree.storage.lines import Backwards, Read
from sessiontree.text.preview import shown, told

HEAD: Final = 16 * 1024
TAIL: Final = 32 * 1024
FIRST_MESSAGE_WITHIN: Final = 256 * 1024
FIRST_MESSAGE_WIDTH: Final = 200
"""Characters of the first message that are told."""

_LAST_LINES: Final = 8
"""Lines looked at, from the end, for one that is an entry."""


class Last(msgspec.Struct, gc=False):
    """What is told of the last entry."""

    type: str
    timestamp: str | None = None
    lane: str | None = None


_decode_last: Final = msgspec.json.Decoder(Last).decode


def last_in(window: bytes, *, whole: bool) -> Last | None:
    """The last line of a window that is an entry and lies in it whole, or None."""
    end = len(window)
    for _ in range(_LAST_LINES):
        start = window.rfind(b"\n", 0, end) + 1
        if not start and not whole:
            return None
        if found := _as_last(window[start:end]):
            return found
        end = start - 1
        if end <= 0:
            break
    return None


def last_before(read: Read, size: int) -> Last:
    """The same of a file whose last lines are longer than a window, or no entries."""
    backwards = Backwards(read)
    end = size
    for _ in range(_LAST_LINES):
        start, line = backwards.line_before(end)
        if found := _as_last(line):
            return found
        end = start - 1
        if end <= 0:
            break
    return Last("")


def _as_last(line: bytes) -> Last | None:
    if line:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return _decode_last(line)
    return None


def name_in(tail: bytes) -> str | None:
    """The name that the end of a file tells, or None."""
    given = name_given_in(tail)
    if given is not None:
        return given
    for body in _bodies(tail, b'"compaction"', "compaction"):
        state = body.get("state")
        return text(state, "name") if isinstance(state, dict) else None
    return None


def name_given_in(window: bytes) -> str | None:
    """The last name that whole lines of a window give, or None."""
    for body in _bodies(window, b'"session_info"', "session_info"):
        if name := text(body, "name"):
            return name
    return None


def _bodies(window: bytes, needle: bytes, kind: str) -> Iterator[Mapping[str, Any]]:
    """The entries of a type in a window, last first."""
    at = stringzilla.rfind(window, needle)
    while at >= 0:
        start = window.rfind(b"\n", 0, at) + 1
        end = window.find(b"\n", at)
        body = decode_object(window[start : end if end >= 0 else len(window)])
        if body.get("type") == kind:
            yield body
        at = stringzilla.rfind(window, needle, 0, start)


def first_message(head: bytes, read: Read, size: int) -> str | None:
    """What the first prompt says; the head is read further where it is not in there.

    Where there is none, the first command that was given to the program itself.
    """
    found = _prompt_in(head)
    while found is None and len(head) < min(size, FIRST_MESSAGE_WITHIN):
        head = read(4 * len(head), 0)
        found = _prompt_in(head)
    return found or _command_in(head)


def _prompt_in(window: bytes) -> str | None:
    """What the first prompt in whole lines of a window says."""
    at = stringzilla.find(window, _USER)
    while at >= 0:
        start = window.rfind(b"\n", 0, at) + 1
        end = window.find(b"\n", at)
        end = len(window) if end < 0 else end
        body = decode_object(window[start:end])
        if begins_turn(body):
            return one_line(_said(body)[:_LOOK], FIRST_MESSAGE_WIDTH)
        at = stringzilla.find(window, _USER, end)
    return None


def _command_in(window: bytes) -> str | None:
    at = stringzilla.find(window, _COMMAND)
    while at >= 0:
        start, end = window.rfind(b"\n", 0, at) + 1, window.find(b"\n", at)
        end = len(window) if end < 0 else end
        message = decode_object(window[start:end]).get("message")
        if isinstance(message, dict) and role_of(message) == "user":
            command = slash_command(text_of(message))
            if command is not None:
                return one_line(command[:_LOOK], FIRST_MESSAGE_WIDTH)
        at = stringzilla.find(window, _COMMAND, end)
    return None


_COMMAND: Final = b"<command-name>"
_USER: Final = b'"user"'
_LOOK: Final = 2 * FIRST_MESSAGE_WIDTH


def _said(body: Mapping[str, Any]) -> str:
    return preview_of(shown(told(body)["message"]))


def text(body: Mapping[str, Any], key: str) -> str | None:
    """A value that is a string; None for any other."""
    value = body.get(key)
    return value if isinstance(value, str) else None
