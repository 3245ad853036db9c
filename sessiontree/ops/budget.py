"""Answers that fit a model: pages of lists, passages of texts, values with their long texts cut.

A token is taken for four bytes of JSON, as in `context.compaction`. A place in a value is a JSON
Pointer (RFC 6901), `/message/content/0/text`, by which the rest of a text is asked for. A value
with too many items is cut as its JSON text.

Invariants: an answer keeps its budget, but for one item that cannot be shorter; nothing is left out
without a sentence that says so and how to get it; the pages of a list that did not change hold each
item once; each character of a value can be reached by the place and an offset.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, Generic, Protocol, TypeVar

import msgspec

from sessiontree.ops.guidance import Refusal
from sessiontree.text.amounts import counted

S = TypeVar("S")
T = TypeVar("T")

_SURROGATE: Final = re.compile("[\ud800-\udfff]")

TOKENS: Final = 4000
"""The tokens of an answer, if the caller does not say."""

_BYTES_OF_TOKEN: Final = 4
_ENVELOPE: Final = 400
"""Bytes kept free for what stands around the items of a page."""

_QUOTES: Final = 2
"""Bytes around a text as JSON."""

SHORTEST: Final = 48
"""Characters that a text keeps however small the budget is: a uuid, and a bit more."""

_LEAST: Final = 200
"""The smallest budget, in tokens; there is no room for an answer in less."""

_MAX_KEYS: Final = 64
"""The keys that an object keeps as long as anything else can be cut."""

_DEEPEST: Final = 100
_WIDEST_NUMBER: Final = 64  # bits
_MARK: Final = 28  # characters kept free for what stands in place of the middle of a text
_LONGEST_KEY: Final = 40
_LONGEST_COUNT: Final = 9  # digits


class Budgeted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a method whose answer has a budget."""

    budget: Annotated[
        int,
        msgspec.Meta(
            ge=0, le=2**31, description="The most tokens of the answer, 200 or more; 0: no limit."
        ),
    ] = TOKENS


class Paged(Budgeted, kw_only=True):
    """Parameters of a method that answers with a page of a list."""

    cursor: Annotated[
        str | None,
        msgspec.Meta(description="Where to go on: the `cursor` of the page before."),
    ] = None


Offset = Annotated[
    int,
    msgspec.Meta(ge=0, description="The character to begin at: the `next` of the answer before."),
]


class TextSlice(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A part of a long text; `next` is there if the text goes on."""

    text: Annotated[str, msgspec.Meta(description="The text, from `offset` on.")]
    offset: Annotated[int, msgspec.Meta(description="The characters before it.")] = 0
    next: Annotated[
        int | None, msgspec.Meta(description="The parameter `offset` of the next part.")
    ] = None


class Page(msgspec.Struct, Generic[T], kw_only=True, omit_defaults=True):
    """A page of a list; `cursor` and `more` are there if the list goes on."""

    items: Annotated[list[T], msgspec.Meta(description="The items of this page.")]
    more: Annotated[
        str | None, msgspec.Meta(description="What is left out, and how to get it.")
    ] = None
    cursor: Annotated[
        str | None, msgspec.Meta(description="The parameter `cursor` of the next page.")
    ] = None


def page(items: Iterable[T], given: Paged, key: Callable[[T], str]) -> Page[T]:
    """The next items of a list that the budget has room for, at least one.

    Args:
        items: the whole list, the most telling first; no more of it is taken than is needed.
        given: the budget, and where the page before ended.
        key: what tells an item from all others of the list.

    Raises:
        Refusal: the item at which the page before ended is not in the list any more.
    """
    return page_of(items, given, key, lambda item: item)


def page_of(
    items: Iterable[S],
    given: Paged,
    key: Callable[[S], str],
    make: Callable[[S], T],
    beside: int = 0,
) -> Page[T]:
    """The same for items that are made of those of a list: only those of the page, and one more.

    Args:
        items, given, key: as for `page`.
        make: makes an item of the page.
        beside: the bytes of what the answer has beside the items.
    """
    rest, number = _behind(iter(items), given.cursor, key)
    left = room(given.budget) - _ENVELOPE - beside if given.budget else None
    taken: list[T] = []
    last = ""
    for each in rest:
        item = make(each)
        if left is not None:
            left -= size(item) + 1
            if left < 0 and taken:
                shown = number + len(taken)
                more = f"{counted(shown, 'is', 'are')} shown; give the cursor for more"
                return Page(items=taken, more=more, cursor=f"{shown}:{_mark(last)}")
        taken.append(item)
        last = key(each)
    return Page(items=taken)


def short_list(items: Sequence[T], given: Budgeted, beside: int) -> tuple[list[T], str | None]:
    """The first items of what a call has done, and a sentence on those that are left out.

    There is no next page of it: another call would do it again.
    """
    if not given.budget:
        return list(items), None
    left = room(given.budget) - _ENVELOPE - beside
    for count, item in enumerate(items):
        left -= size(item) + 1
        if left < 0:
            rest = len(items) - count
            more = counted(rest, "more is", "more are")
            return list(items[:count]), f"{more} left out; a larger budget shows more"
    return list(items), None


def _behind(
    items: Iterator[T], cursor: str | None, key: Callable[[T], str]
) -> tuple[Iterator[T], int]:
    """What follows the item that a cursor names, and how many items stand before that."""
    if cursor is None:
        return items, 0
    shown, colon, last = cursor.partition(":")
    if not (colon and shown.isascii() and shown.isdecimal() and len(shown) <= _LONGEST_COUNT):
        raise Refusal(
            f"{cursor!r:.100} is not a cursor",
            "bad_cursor",
            "Give the cursor of the page before as it is, or none to begin at the start.",
        )
    for item in items:
        if _mark(key(item)) == last:
            return items, int(shown)
    raise Refusal(
        f"the list has changed: it has no {last!r:.100} any more",
        "bad_cursor",
        "Call again without a cursor, to begin at the start.",
    )


def passage(parts: Iterable[str], offset: int, budget: int, beside: int = 0) -> TextSlice:
    """The part of a text that the budget has room for, at least one character.

    Args:
        parts: the text in parts; no more of it is taken than is needed.
        offset: the characters before the passage.
        budget: the tokens of the answer; 0: no limit.
        beside: the bytes of what the answer has beside the text.
    """
    left = max(room(budget) - _ENVELOPE - beside, 1) if budget else None
    skip = offset
    taken: list[str] = []
    for part in parts:
        begun, skip = part[skip:], max(skip - len(part), 0)
        if not begun:
            continue
        fits = begun if left is None else beginning(begun, left, least=not taken)
        taken.append(fits)
        if len(fits) < len(begun):
            text = "".join(taken)
            return TextSlice(text=text, offset=offset, next=offset + len(text))
        left = None if left is None else left - size(fits) + _QUOTES
    if skip:
        raise Refusal(
            f"the text has only {offset - skip:,} characters: nothing begins at {offset:,}",
            "bad_value",
            "Give the `next` of the answer before as `offset`, or none to begin at the start.",
        )
    return TextSlice(text="".join(taken), offset=offset)


def beginning(text: str, most: int, *, least: bool = False) -> str:
    """The longest beginning of a text with at most so many bytes as JSON; `least`: not empty."""
    length = largest(
        0, min(len(text), max(most, 1)), lambda length: size(text[:length]) - _QUOTES <= most
    )
    return text[: max(length or 0, int(least))]


def _mark(key: str) -> str:
    """What stands in a cursor for a key: of a long one its hash, so that no cursor is ever cut."""
    if len(key) <= _LONGEST_KEY and key.isascii() and key.isprintable():
        return key
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:_LONGEST_KEY]


def room(budget: int) -> int:
    """The bytes of a budget in tokens."""
    return max(budget, _LEAST) * _BYTES_OF_TOKEN


def size(value: Any) -> int:
    """The bytes of a value as JSON."""
    return len(encoded(value))


def encoded(value: Any) -> bytes:
    """A value as JSON; a lone surrogate is spelled as an escape."""
    try:
        return msgspec.json.encode(value, enc_hook=plain)
    except (UnicodeEncodeError, OverflowError):
        text = json.dumps(as_builtins(value), separators=(",", ":"), ensure_ascii=False)
        return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def as_builtins(value: Any) -> Any:
    """A value as dicts, lists, texts and numbers."""
    return msgspec.to_builtins(value, enc_hook=plain)


def plain(value: Any) -> Any:
    """A value of this library that msgspec does not know, in the shape that `--json` prints."""
    for name in ("as_stored", "as_dict"):
        shape = getattr(value, name, None)
        if shape is not None:
            return dict(shape() if callable(shape) else shape)
    raise NotImplementedError(f"a {type(value).__name__} has no shape in JSON")


def fit(value: Any, budget: int) -> tuple[Any, str | None]:
    """A value of builtins that keeps a budget of tokens, and what was left out.

    The longest texts lose their middles first. What cannot be kept short so, such as a list of a
    million numbers, loses the ends of its longest lists; then what is nested deep.
    """
    allowed = room(budget)
    if not budget or size(value) <= allowed:
        return value, None
    few = _Cut(size(value), allowed).value(value)  # more items cannot fit
    for least, most, limits in _stages(allowed):
        number = largest(least, most, partial(_keeps, few, allowed, limits))
        if number is not None:
            return _told(value, limits(number))
    return _told(value, _Cut(0, 0, keys=0))


def _keeps(value: Any, room: int, limits: Callable[[int], _Cut], number: int) -> bool:
    return size(limits(number).value(value)) <= room


def _told(value: Any, cut: _Cut) -> tuple[Any, str]:
    short = cut.value(value)
    return short, f"{cut.said}; a larger budget gives more, and 0 gives all"


class _Cut:
    """Makes a value short: its texts, its lists, its objects; counts what it cut.

    Args:
        text: the most characters of a text.
        items: the most items of a list, and of an object that has more than `keys`.
        inner: the most characters of a text that stands deeper than at the top.
        depth: the most levels of lists and objects in one another.
        keys: the keys that an object keeps in any case.
    """

    def __init__(
        self,
        text: int,
        items: int | None = None,
        *,
        inner: int | None = None,
        depth: int = _DEEPEST,
        keys: int = _MAX_KEYS,
    ) -> None:
        self._text_at_top = text
        self._inner = text if inner is None else inner
        self._items = items
        self._depth = depth
        self._keys = keys
        self._texts_cut = 0
        self._items_cut = 0

    @property
    def said(self) -> str:
        """What was cut, in words."""
        texts = f"texts cut to {self._text_at_top:,} characters: {self._texts_cut:,}"
        items = f"items left out: {self._items_cut:,}"
        counts = ((texts, self._texts_cut), (items, self._items_cut))
        return "; ".join(text for text, count in counts if count)

    def value(self, value: Any, level: int = 0) -> Any:
        if isinstance(value, str):
            return self._text(value, self._inner if level > 1 else self._text_at_top)
        if isinstance(value, list):
            return [self.value(each, level + 1) for each in self._some(value, 0, level)]
        if isinstance(value, dict):
            names = [name for name in value if len(name) <= max(self._inner, SHORTEST)]
            self._items_cut += len(value) - len(names)
            kept = self._some(names, self._keys, level)
            return {name: self.value(value[name], level + 1) for name in kept}
        if isinstance(value, int) and value.bit_length() > _WIDEST_NUMBER:
            return self._text(str(value), self._inner)
        return value

    def _some(self, values: list[Any], least: int, level: int) -> list[Any]:
        most = len(values) if self._items is None else max(self._items, least)
        if level >= self._depth:
            most = 0
        self._items_cut += max(len(values) - most, 0)
        return values[:most]

    def _text(self, text: str, length: int) -> str:
        if len(text) <= length:
            return text
        self._texts_cut += 1
        room = length - _MARK
        if room < SHORTEST - _MARK:
            return f"{text[: length - 1]}…" if length else ""
        end = room // 3
        left_out = len(text) - room
        return f"{text[: room - end]} … {left_out:,} characters … {text[len(text) - end :]}"


def _stages(room: int) -> Iterator[tuple[int, int, Callable[[int], _Cut]]]:
    """Ways to cut, the mildest first: the least number, the most, and the cut of a number."""
    short = SHORTEST
    yield short, max(room, short), lambda n: _Cut(n)
    yield 1, room, lambda n: _Cut(short, n)
    yield 4, short, lambda n: _Cut(short, 1, inner=n)
    yield 1, _DEEPEST, lambda n: _Cut(short, 1, inner=4, depth=n)
    yield 1, _MAX_KEYS, lambda n: _Cut(short, 1, inner=4, depth=1, keys=n)


def largest(least: int, most: int, fits: Callable[[int], bool]) -> int | None:
    """The largest number that fits, if the least one does."""
    if not fits(least):
        return None
    while least < most:
        middle = (least + most + 1) // 2
        if fits(middle):
            least = middle
        else:
            most = middle - 1
    return least


_PLACES: Final = 8
"""The places of the cuts take at most this part of the room; a text says itself that it is cut."""

_MAX_NAMED: Final = 20


_ENVELOPE_BYTES: Final = 600
"""Bytes kept free for what stands around a value or a part of it."""


class ValuePart(Budgeted, kw_only=True):
    """Parameters of a method that gives a value, or the text at one place of it."""

    part: Annotated[
        str | None,
        msgspec.Meta(
            description="Read only this part, as text: a JSON Pointer such as "
            "'/message/content/0/text'; '' for all of it as JSON."
        ),
    ] = None
    offset: Offset = 0


class JsonPointerParam(Protocol):
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

    def take(self, value: Any, given: JsonPointerParam) -> Any:
        """The value with its long texts cut; None where a part is read, which is then in `text`."""
        if given.part is None and not given.offset:
            allowed = room(given.budget) - _ENVELOPE_BYTES if given.budget else None
            found, self.cut = shorten(value, allowed)
            return found
        self.read(value, given)
        return None

    def read(self, value: Any, given: JsonPointerParam) -> None:
        """Read the part that is asked for into `text`."""
        parts = [text_at(value, given.part or "")]
        found = passage(parts, given.offset, given.budget, _ENVELOPE_BYTES)
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
        names = [_escaped(key) for key in list(value)[:_MAX_NAMED]]
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
    mark = len(_mark_of_cut(len(text)).encode())
    shown = beginning(text, max(room - mark, 0))
    return shown + _mark_of_cut(len(text) - len(shown)), [Cut(place, len(shown), len(text))]


def _mark_of_cut(count: int) -> str:
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
        mark = _mark_of_cut(len(text) - self._length)
        if len(text) <= self._length + len(mark):
            return text
        self.cuts.append(Cut(place, self._length, len(text)))
        return text[: self._length] + mark
