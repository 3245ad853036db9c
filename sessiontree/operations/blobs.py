"""The blobs that the entries of a session need, and whether they are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sessiontree import errors
from sessiontree.core.blob import MARK, Blob, blobs_needed
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
