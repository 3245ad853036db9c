"""Values with their long texts cut, each at its place, so that the rest can be asked for.

A place in a value is a JSON Pointer (RFC 6901): `/message/content/0/text`. Of a value with too many
items, its JSON text stands in its place, cut as a text.

Invariant: each character of a value can be reached by the place and an offset.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Protocol

import msgspec

from sessiontree.dispatch.budget import (
    SHORTEST,
    Budgeted,
    Offset,
    beginning,
    largest,
    passage,
    room,
    size,
)
from sessiontree.dispatch.guidance import Refusal

_PLACES: Final = 8
"""The places of the cuts take at most this part of the room; a text says itself that it is cut."""

_MOST_NAMED: Final = 20


_ENVELOPE: Final = 600
"""Bytes kept free for what stands around a value or a part of it."""


class Part(Budgeted, kw_only=True):
    """Parameters of a method that gives a value, or the text at one place of it."""

    part: Annotated[
        str | None,
        msgspec.Meta(
            description="Read only this part, as text: a JSON Pointer such as "
            "'/message/content/0/text'; '' for all of it as JSON."
        ),
    ] = None
    offset: Offset = 0


class PartGiven(Protocol):
    """Which part of a value is asked for, if any."""

    budget: int
    part: str | None
    offset: int


class Cut(msgspec.Struct):
    """A text that was cut."""

    part: Annotated[
        str, msgspec.Meta(description="Its place, as a JSON Pointer: the parameter `part`.")
    ]
    shown: Annotated[
        int, msgspec.Meta(description="The characters shown: the parameter `offset` to go on.")
    ]
    length: Annotated[int, msgspec.Meta(description="The characters of the whole text.")]


class Reading(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is read of a value: all of it with its long texts cut, or a part as text."""

    cut: Annotated[list[Cut], msgspec.Meta(description="The texts that were cut.")] = []
    text: Annotated[
        str | None, msgspec.Meta(description="The part that was asked for, as text.")
    ] = None
    offset: Annotated[
        int, msgspec.Meta(description="The characters of the part before `text`.")
    ] = 0
    next: Annotated[
        int | None, msgspec.Meta(description="The parameter `offset` of what follows `text`.")
    ] = None

    def take(self, value: Any, given: PartGiven) -> Any:
        """The value with its long texts cut; None where a part is read, which is then in `text`."""
        if given.part is None and not given.offset:
            allowed = room(given.budget) - _ENVELOPE if given.budget else None
            found, self.cut = shorten(value, allowed)
            return found
        self.read(value, given)
        return None

    def read(self, value: Any, given: PartGiven) -> None:
        """Read the part that is asked for into `text`."""
        parts = [text_at(value, given.part or "")]
        found = passage(parts, given.offset, given.budget, _ENVELOPE)
        self.text, self.offset, self.next = found.text, found.offset, found.next


def shorten(value: Any, room: int | None, place: str = "") -> tuple[Any, list[Cut]]:
    """A value in so many bytes as JSON, and the texts that were cut for it, the longest first.

    Args:
        value: what JSON can carry.
        room: the bytes; None: no limit.
        place: the place of the value itself, which begins those of its texts.
    """
    if room is None or size(value) <= room:
        return value, []
    if isinstance(value, str):
        return _shorten_text(value, room, place)
    most = room - room // _PLACES

    def fits(length: int) -> bool:
        return size(_Shortener(length).value(value, place)) <= most

    length = largest(SHORTEST, max(most, SHORTEST), fits)
    if length is None:
        return _shorten_text(json_of(value), most, place)
    made = _Shortener(length)
    found = made.value(value, place)
    return found, _named(made.cuts, room // _PLACES)


def _named(cuts: list[Cut], room: int) -> list[Cut]:
    """The cuts of the longest texts, in so many bytes, at least one."""
    cuts.sort(key=lambda cut: -cut.length)
    left = room
    for count, cut in enumerate(cuts):
        left -= size(cut) + 1
        if left < 0:
            return cuts[: max(count, 1)]
    return cuts


def json_of(value: Any) -> str:
    """A value as JSON text that people read."""
    return json.dumps(value, ensure_ascii=False)


def text_at(value: Any, pointer: str) -> str:
    """The text at a place of a value; of anything else there, its JSON text.

    Raises:
        Refusal: there is no such place.
    """
    for key in pointer.split("/")[1:]:
        value = _item(value, key.replace("~1", "/").replace("~0", "~"), pointer)
    if pointer and not pointer.startswith("/"):
        raise _no_part(pointer, value)
    return value if isinstance(value, str) else json_of(value)


def _item(value: Any, key: str, pointer: str) -> Any:
    if isinstance(value, Mapping) and key in value:
        return value[key]
    if isinstance(value, Sequence) and not isinstance(value, str):
        is_index = key.isascii() and key.isdecimal() and len(key) < len(str(len(value))) + 1
        if is_index and int(key) < len(value):
            return value[int(key)]
    raise _no_part(pointer, value)


def _no_part(pointer: str, value: Any) -> Refusal:
    if isinstance(value, Mapping):
        names = [_escaped(key) for key in list(value)[:_MOST_NAMED]]
        near = f"has the keys {', '.join(names)}" if names else "has no keys"
    elif isinstance(value, Sequence) and not isinstance(value, str):
        names, near = [], f"is a list of {len(value):,} items, counted from 0"
    else:
        names, near = [], "is not an object and not a list"
    return Refusal(
        f"there is no part {pointer!r:.200}: what stands above it {near}",
        "no_such_part",
        "Give a part as a JSON Pointer, such as /message/content/0/text, or none for all of it.",
        names,
    )


def _escaped(key: Any) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def _shorten_text(text: str, room: int, place: str) -> tuple[str, list[Cut]]:
    mark = len(_mark(len(text)).encode())
    shown = beginning(text, max(room - mark, 0))
    return shown + _mark(len(text) - len(shown)), [Cut(place, len(shown), len(text))]


def _mark(count: int) -> str:
    return f" … {count:,} more characters"


class _Shortener:
    """Cuts the texts that are longer than a length, and keeps where."""

    def __init__(self, length: int) -> None:
        self._length = length
        self.cuts: list[Cut] = []

    def value(self, value: Any, place: str) -> Any:
        if isinstance(value, str):
            return self._text(value, place)
        if isinstance(value, Mapping):
            return {
                key: self.value(inner, f"{place}/{_escaped(key)}") for key, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(inner, f"{place}/{at}") for at, inner in enumerate(value)]
        return value

    def _text(self, text: str, place: str) -> str:
        mark = _mark(len(text) - self._length)
        if len(text) <= self._length + len(mark):
            return text
        self.cuts.append(Cut(place, self._length, len(text)))
        return text[: self._length] + mark
