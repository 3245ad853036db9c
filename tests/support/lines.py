"""Entries made from keys, as the tests of the core want them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from hypothesis import strategies as st

from sessiontree.core.codec import decode, encode
from sessiontree.core.entry import Entry
from sessiontree.storage import lines

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
"""Anything JSON can carry."""


@dataclass
class Findings:
    """A report that keeps what it was told."""

    told: list[tuple[str, int, str]] = field(default_factory=list)

    def __call__(self, kind: str, offset: int, cause: str) -> None:
        self.told.append((kind, offset, cause))

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _, _ in self.told]


def read(line: bytes) -> tuple[Entry | None, list[str]]:
    """A line's entry, and the kinds of damage reported."""
    findings = Findings()
    return decode(line, 0, findings), findings.kinds


def entry(type: str, uuid: str = "e", parent: str | None = None, **fields: Any) -> Entry:
    line = encode({"type": type, "uuid": uuid, "parentUuid": parent, **fields})
    made, kinds = read(line)
    assert made is not None
    assert kinds == []
    return made


def message(uuid: str, content: Any, role: str = "user", **keys: Any) -> Entry:
    return entry("message", uuid, message={"role": role, "content": content, **keys})


@dataclass
class Path:
    """A path as a fold reads it."""

    entries: list[Entry]
    compaction: Entry | None = None
    whole: bool = True
    cut_above: bool = False


def path(*entries: Entry, cut_above: bool = False) -> Path:
    """A whole path, its latest compaction found."""
    found = next((e for e in reversed(entries) if e.type == "compaction"), None)
    return Path(list(entries), found, cut_above=cut_above)


def segments(known: Mapping[tuple[str, str], Sequence[Entry]]) -> Any:
    """A lookup of merged segments by base and merged uuid; unknown ones are empty."""
    return lambda base, merged: known.get((base, merged), [])


@contextmanager
def blocks_of(first: int, largest: int) -> Iterator[None]:
    """Small blocks, so that short lines lie across many of them."""
    with (
        mock.patch.object(lines, "FIRST_BLOCK", first),
        mock.patch.object(lines, "LARGEST_BLOCK", largest),
        mock.patch.object(lines, "FORWARD_BLOCK", largest),
        mock.patch.object(lines, "_SMALL", first),
    ):
        yield
