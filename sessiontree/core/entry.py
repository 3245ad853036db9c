"""The entry: one line of a session file, and the types it may have.

An entry is frozen. Its structural keys are attributes, all else is read by key
(`entry["message"]`), and `entry.line` is the line as stored. What `entry[...]`
returns is shared and read-only by convention.

A session of a million entries is a million of these, so an entry holds no dict
of its own beside the message, is not tracked by the garbage collector (it
cannot be part of a cycle), and decodes its remaining keys when first asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

import msgspec
import orjson
from msgspec import UNSET, field
from msgspec.structs import force_setattr

HEADER: Final = "session"

SUMMARIES: Final = frozenset({"branch_summary", "stack_summary"})
"""Types that put a summary into the context."""

ANNOTATIONS: Final = frozenset({"label", "session_info", "usage"})
"""Types that speak for the whole file and never move a leaf."""

MARKERS: Final = ANNOTATIONS | {"branch", "stack_push"}
"""Types that mark a place and say nothing to a model."""

SETTINGS: Final = frozenset({"model_change", "thinking_level_change"})

CONTENT: Final = SUMMARIES | {
    "message",
    "handle",
    "compaction",
    "merge",
    "custom_message",
    "block",
    "message_end",
}
"""Types that stand for something in the context: what `@~3` counts."""

KNOWN: Final = CONTENT | MARKERS | SETTINGS | {HEADER, "context_edit", "custom"}


class Entry(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One entry of a session, as stored.

    Attributes:
        type: the entry type, such as `message` or `compaction`.
        uuid: unique in the file.
        parent_uuid: the parent's uuid; None on the header.
        lane: the lane it was written on; None is main.
        timestamp: RFC 3339 as stored; None where the line has none.
        offset: the byte offset of its line in the file; -1 before it is written.
    """

    type: str
    uuid: str
    parent_uuid: str | None = field(default=None, name="parentUuid")
    lane: str | None = None
    timestamp: str | None = None
    _message: Any = field(default=UNSET, name="message")
    # Set after decoding. A line that holds these names with a value fails the
    # type check, and is then decoded the long way: no key of a file gets here.
    _line: None = field(default=None, name="(line)")
    _body: None = field(default=None, name="(body)")
    _at: None = field(default=None, name="(offset)")

    @property
    def line(self) -> bytes:
        """The line as stored, without its newline."""
        return cast(bytes, self._line)

    @property
    def offset(self) -> int:
        return cast(int, self._at)

    def __getitem__(self, key: str) -> Any:
        if key == "message" and self._message is not UNSET:
            return self._message
        return self.body[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key as stored, or `default`."""
        if key == "message" and self._message is not UNSET:
            return self._message
        return self.body.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self.body

    def __iter__(self) -> Iterator[str]:
        return iter(self.body)

    @property
    def body(self) -> Mapping[str, Any]:
        """All keys of the line, decoded once. Read-only by convention."""
        if self._body is None:
            force_setattr(self, "_body", decode_object(self.line))
        return cast(Mapping[str, Any], self._body)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entry):
            return NotImplemented
        return self.uuid == other.uuid and self.line == other.line

    def __ne__(self, other: object) -> bool:
        return not self == other  # the base class has one, which goes by identity

    def __hash__(self) -> int:
        return hash(self.uuid)

    def __repr__(self) -> str:
        return f"<Entry {self.type} {self.uuid} parent={self.parent_uuid}>"

    @property
    def is_content(self) -> bool:
        """Whether the entry stands for something in a context."""
        return self.type in CONTENT


def stored(entry: Entry, line: bytes, offset: int, body: Mapping[str, Any] | None = None) -> Entry:
    """Give a fresh entry its line, its place and, where known, its decoded keys."""
    force_setattr(entry, "_line", line)
    force_setattr(entry, "_at", offset)
    if body is not None:
        force_setattr(entry, "_body", body)
    return entry


def moved(entry: Entry, offset: int) -> Entry:
    """The same entry, now that its place in the file is known."""
    force_setattr(entry, "_at", offset)
    return entry


_decode_any: Callable[[bytes], Any] = msgspec.json.Decoder().decode


def decode_object(line: bytes) -> dict[str, Any]:
    """The keys of a line; empty when it is no JSON object even when read leniently."""
    value = decode_leniently(line)
    return value if isinstance(value, dict) else {}


def decode_leniently(line: bytes) -> Any:
    """A line's JSON value by the first decoder that accepts it, or None.

    msgspec reads every number as it was written; what it refuses (a lone
    surrogate, a stray byte, a number too large) the standard library may not;
    orjson reads a nesting as deep as 1,024 levels however deep the caller stands.
    """
    try:
        return _decode_any(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return json.loads(
            line.decode("utf-8", "replace"),
            parse_constant=_refuse_constant,
            parse_int=_whole_number,
        )
    except ValueError:
        return None
    except RecursionError:
        pass
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _whole_number(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:  # Python refuses thousands of digits; too large, as 1e999 is
        return float(digits)
