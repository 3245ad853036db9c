"""A state of a viewed session: the index of its page, and its chunks by their names.

A chunk is named after its content, so that states share what did not change, and the page fetches
only what is new. `change` says what the page has to replace.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import Any, Final

import msgspec
import orjson

from sessiontree.page.document import Document
from sessiontree.page.index import as_json, differences

_LISTS: Final = (
    "kinds",
    "gists",
    "times",
    "uuids",
    "rowOf",
    "entryOf",
    "above",
    "tokens",
    "turns",
    "layout",
    "chunks",
    "names",
)
_VALUES: Final = ("agents", "files", "labels", "rules", "here", "part")
_TEXTS: Final = ("gists", "uuids")
_SUMMED: Final = ("times", "rowOf", "entryOf")


class PageState(msgspec.Struct, frozen=True):
    """What a page shows."""

    index: dict[str, Any]
    """What the script reads first, see `Document.index`, and the names of the chunks.

    Numbers are not differences, and texts are lists.
    """

    parts: dict[str, bytes]
    """The chunks by their names, compressed."""

    title: str

    def packed_index(self, number: int) -> bytes:
        """The index as the script reads it, compressed; `number` is that of the state."""
        sent = {name: differences(self.index[name]) for name in _SUMMED}
        texts = {name: "\n".join(self.index[name]) for name in _TEXTS}
        whole = {**self.index, **sent, **texts, "number": number}
        return zlib.compress(as_json(whole), 1)


def state_of(document: Document, *, part: str = "") -> PageState:
    """The state that a document gives; `part` says what is missing of the session."""
    parts: dict[str, bytes] = {}
    names: list[str] = []
    for chunk in document.chunks():
        data = base64.b64decode(chunk)
        names.append(blake2b(data, digest_size=12).hexdigest())
        parts[names[-1]] = data
    index = document.index()
    for name in _SUMMED:
        index[name] = list(accumulate(index[name]))
    for name, count in zip(_TEXTS, (len(index["kinds"]), len(index["rowOf"])), strict=True):
        index[name] = index[name].split("\n") if count else []
    return PageState({**index, "names": names, "part": part}, parts, document.title())


def change(old: PageState, new: PageState, number: int) -> bytes:
    """What makes the new state of the old one, as JSON.

    `lists` has for each list how much stays and what follows; `values` what is replaced; `same` is
    the number of the first row that may have another number, and `changed` the rows before it that
    are shown in another way.
    """
    lists: dict[str, tuple[int, Any]] = {}
    for name in _LISTS:
        before, after = old.index[name], new.index[name]
        stays = _common(before, after)
        if stays < len(before) or stays < len(after):
            lists[name] = stays, after[stays:]
    values = {name: new.index[name] for name in _VALUES if new.index[name] != old.index[name]}
    same = min(_common(old.index[name], new.index[name]) for name in ("kinds", "gists"))
    made = {
        "number": number,
        "title": new.title,
        "lists": lists,
        "values": values,
        "same": same,
        "changed": _changed(old, new, same),
    }
    return as_json(made)


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    least = min(len(one), len(other))
    if one[:least] == other[:least]:
        return least
    low, high = 0, least  # the first `low` are equal, the first `high` are not
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _changed(old: PageState, new: PageState, same: int) -> list[int]:
    """The rows before `same` whose content is another, or was in a chunk that ended before."""
    named = dict(zip(old.index["chunks"], old.index["names"], strict=True))
    found: list[int] = []
    for first, name in zip(new.index["chunks"], new.index["names"], strict=True):
        if first >= same:
            break
        before = named.get(first)
        if before == name:
            continue
        rows = _rows(new.parts, name)
        if before is None:
            found += range(first, min(same, first + len(rows)))
            continue
        was = _rows(old.parts, before)
        found += (first + n for n, row in enumerate(rows) if n >= len(was) or was[n] != row)
    return [row for row in found if row < same]


def _rows(parts: Mapping[str, bytes], name: str) -> list[Any]:
    rows: list[Any] = orjson.loads(zlib.decompress(parts[name]))
    return rows
