"""Answers that fit a model: pages of items, passages of long texts, and values with their long
texts cut.

Invariants: an answer keeps its budget, but for one item that cannot be shorter; nothing is left out
without a sentence that says so and how to get it; the pages of a list that did not change hold each
item once.

A token is taken for four bytes of JSON, as in `context.compaction`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec

from sessiontree.dispatch.guidance import Refusal

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

_SHORTEST: Final = 48
"""Characters that a text keeps however small the budget is: a uuid, and a bit more."""

_LEAST: Final = 200
"""The smallest budget, in tokens; there is no room for an answer in less."""

_MOST_KEYS: Final = 64
"""The keys that an object keeps however small the budget is."""


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


class Passage(msgspec.Struct, kw_only=True, omit_defaults=True):
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
                more = f"{shown:,} are shown; give the cursor for more"
                return Page(items=taken, more=more, cursor=f"{shown}:{last}")
        taken.append(item)
        last = key(each)
    return Page(items=taken)


def _behind(
    items: Iterator[T], cursor: str | None, key: Callable[[T], str]
) -> tuple[Iterator[T], int]:
    """What follows the item that a cursor names, and how many items stand before that."""
    if cursor is None:
        return items, 0
    shown, colon, last = cursor.partition(":")
    if not (colon and shown.isascii() and shown.isdecimal()):
        raise Refusal(
            f"{cursor!r:.100} is not a cursor",
            "bad_cursor",
            "Give the cursor of the page before as it is, or none to begin at the start.",
        )
    for item in items:
        if key(item) == last:
            return items, int(shown)
    raise Refusal(
        f"the list has changed: it has no {last!r:.100} any more",
        "bad_cursor",
        "Call again without a cursor, to begin at the start.",
    )


def passage(parts: Iterable[str], offset: int, budget: int, beside: int = 0) -> Passage:
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
            return Passage(text=text, offset=offset, next=offset + len(text))
        left = None if left is None else left - size(fits) + _QUOTES
    return Passage(text="".join(taken), offset=offset)


def beginning(text: str, most: int, *, least: bool = False) -> str:
    """The longest beginning of a text with at most so many bytes as JSON; `least`: not empty."""
    low, high = 1 if least else 0, min(len(text), max(most, 1))
    while low < high:
        middle = (low + high + 1) // 2
        if size(text[:middle]) - _QUOTES <= most:
            low = middle
        else:
            high = middle - 1
    return text[:low]


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
    million numbers, loses the ends of its longest lists.
    """
    allowed = room(budget)
    if not budget or size(value) <= allowed:
        return value, None
    low, high = _SHORTEST, max(allowed, _SHORTEST)
    while low < high:  # the longest length of texts that fits
        middle = (low + high + 1) // 2
        if size(_Cut(middle).value(value)) <= allowed:
            low = middle
        else:
            high = middle - 1
    cut = _Cut(low)
    found = cut.value(value)
    said = f"{cut.texts} texts were cut to {low} characters"
    items = 1024
    while size(found) > allowed and items:
        cut = _Cut(low, items)
        found, items = cut.value(value), items // 2
        said = f"{cut.texts} texts were cut to {low} characters, {cut.items} items left out"
    return found, f"{said}; a larger budget gives more, and 0 gives all"


class _Cut:
    """Makes texts, and lists, no longer than a length; counts what it cut."""

    def __init__(self, length: int, items: int | None = None) -> None:
        self._length = length
        self._items = items
        self.texts = 0
        self.items = 0

    def value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self.value(each) for each in self._some(value, 0)]
        if isinstance(value, dict):
            return {key: self.value(value[key]) for key in self._some(list(value), _MOST_KEYS)}
        return value

    def _some(self, values: list[Any], least: int) -> list[Any]:
        if self._items is None or len(values) <= max(self._items, least):
            return values
        kept = max(self._items, least)
        self.items += len(values) - kept
        return values[:kept]

    def _text(self, text: str) -> str:
        if len(text) <= self._length:
            return text
        self.texts += 1
        end = self._length // 3
        left_out = len(text) - self._length
        return f"{text[: self._length - end]} … {left_out} characters … {text[-end:]}"
