"""The blobs that the entries of a session need, and whether they are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree import errors
from sessiontree.core.blob import MARK, Blob, blobs_needed
from sessiontree.core.codec import decode, lines_in
from sessiontree.core.damage import ignore
from sessiontree.core.entry import decode_object
from sessiontree.core.spill import check_spilled
from sessiontree.engine.reader import TreeReader

FAULTS: Final[dict[type[errors.BlobError], str]] = {
    errors.BlobMissingError: "missing",
    errors.BlobDamagedError: "damaged",
    errors.BlobUnreadableError: "unreadable",
    errors.SpilledError: "spilled",
}
"""For each error of a blob the word for it."""


def named_in(block: bytes) -> Iterator[Blob]:
    """The blobs that the entries in whole lines need; only lines that may name one are decoded."""
    if stringzilla.find(block, MARK) < 0:
        return
    for line in lines_in(block):
        entry = decode(line, 0, ignore) if MARK in line else None
        if entry is not None:
            yield from blobs_needed(entry.as_stored)


class NamedBlobs:
    """The blobs that the entries need in a run of bytes that comes block by block.

    Attributes:
        blobs: those that were found, in the order of the lines.
    """

    def __init__(self) -> None:
        self.blobs: dict[Blob, None] = {}
        self._waiting: list[bytes] = []  # the beginning of a line

    def take(self, block: bytes) -> None:
        """Look through the next block, which may end inside a line."""
        cut = block.rfind(b"\n") + 1
        if cut:
            lines = b"".join([*self._waiting, block[:cut]]) if self._waiting else block[:cut]
            self.blobs.update(dict.fromkeys(named_in(lines)))
            self._waiting.clear()
        if cut < len(block):
            self._waiting.append(block[cut:])


def may_need_blobs(reader: TreeReader) -> Iterator[Mapping[str, Any]]:
    """The stored keys of each entry that may use a blob."""
    for _, line in reader.ready().entry_lines():
        if MARK in line:
            yield decode_object(line)


def verify_blobs(reader: TreeReader) -> tuple[list[errors.BlobError], int]:
    """Read every blob; what is wrong, and how many blobs there are or should be."""
    needed: set[Blob] = set()
    found: list[errors.BlobError] = []
    for keys in may_need_blobs(reader):
        needed.update(blobs_needed(keys))
        try:
            check_spilled(keys)
        except errors.SpilledError as error:
            message = f"{reader.log.name}, entry {keys.get('uuid')}: {error}"
            found.append(errors.SpilledError(message, reader.blobs.file))
    found += reader.blobs.verify(needed)
    checked = len({one.sha256 for one in [*needed, *reader.blobs.blobs()]})
    return found, checked
