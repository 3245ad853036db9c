"""Sessions that are one JSON document with a list of messages, written whole each time.

Invariants: each whole element of the list is read, also of a document that is cut or damaged; its
place is the byte offset at which it begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec

from sessiontree.agents import base
from sessiontree.core.entry import decode_leniently

_decode_keys: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


_OPENING: Final = 4096
"""The bytes at the start of a document that hold the keys before its list."""


def first_keys(head: bytes) -> base.Values:
    """The keys of the object that a file begins with, on one line or many; maybe not all of them.

    No keys for a file that begins otherwise.
    """
    line, _, rest = head.partition(b"\n")
    found = base.values_again(line) if rest else None
    return found or _leading(head[:_OPENING]) or base.Values({})


_leading: Final = lru_cache(maxsize=1)(base.leading_values)
"""Each reader of documents reads these keys twice: to recognise a file, then for its facts."""


def text_in(source: base.AgentSource) -> bytes:
    """All bytes of a file but a last newline."""
    return b"\n".join(line for _, line in source.lines())


def elements_of(document: bytes, key: str) -> Iterator[tuple[int, bytes]]:
    """The offset and the bytes of each whole element of the list with a key."""
    try:
        found = bytes(_decode_keys(document).get(key, b"[]"))
        elements = _decode_list(found)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        yield from _elements_of_start(document, key)
        return
    offset = document.find(found)
    for raw in elements:
        element = bytes(raw)
        offset = document.find(element, offset)
        yield offset, element
        offset += len(element)


def _elements_of_start(document: bytes, key: str) -> Iterator[tuple[int, bytes]]:
    """The same for a document that is cut or damaged."""
    text = document.decode("latin-1")  # a character for each byte, so that offsets are equal
    named = text.find(f'"{key}"')
    at = text.find("[", named) + 1 if named >= 0 else 0
    while at:
        while text[at : at + 1] in (" ", "\t", "\r", "\n", ","):
            at += 1
        element = base.whole_value(text, at)
        if element is None:
            return
        yield at, element
        at += len(element)


def lines_of(document: bytes, key: str, report: base.Report) -> Iterator[base.SourceLine]:
    """Each element as a line; a document that ends early is reported."""
    end, number, counted = 0, 1, 0
    for offset, element in elements_of(document, key):
        end = offset + len(element)
        number, counted = number + document.count(b"\n", counted, offset), offset
        yield base.SourceLine(base.LinePlace(0, number, offset), element)
    if decode_leniently(base.without_zeros(document, base.START, report)) is None:
        start = document.rfind(b"\n", 0, end) + 1
        place = base.LinePlace(0, document.count(b"\n", 0, end) + 1, start)
        report("cut short", place, "the document ends early, or is damaged from here on")


def made_whole(document: bytes, key: str) -> tuple[bytes, str]:
    """A sound document with each whole element of the list, and what was changed."""
    found: list[str] = []
    bare = base.without_zeros(document, base.START, lambda *what: found.append(what[2]))
    if decode_leniently(bare) is not None:
        return bare, f"removed {found[0]}" if found else ""
    elements = [element for _, element in elements_of(document, key)]
    opening = base.leading_values(document) or base.Values({})
    whole = {**opening.raws(), key: b"[%b]" % b",".join(elements)}
    what = f"closed the document after its {len(elements):,} whole messages"
    return base.Values(whole).as_json(), what
