"""The reading back of what an import wrote, before the import counts as done.

Invariant: nothing is changed; bytes of other writers, before and after, are not looked at.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final

from sessiontree.core.blob import Blob
from sessiontree.core.codec import lines_in
from sessiontree.core.verify import is_sealed
from sessiontree.errors import CorruptionError
from sessiontree.storage.backends import open_log
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.lines import whole_lines

_NEXT: Final = (
    "the medium does not return what was written: check it, and back up to another one meanwhile"
)


def check_lines(
    fs: FileSystem, session: str, start: int, end: int, count: int, path: str = ""
) -> None:
    """Check that a file has so many whole lines between two offsets, each with its checksum.

    Args:
        session: the path or address of the session.
        path: the path of the file now, if it does not have its name yet.

    Raises:
        CorruptionError: it has not.
        StorageError: the file cannot be read.
    """
    found = 0
    with contextlib.closing(open_log(fs, path or session, readonly=True)) as log:
        for offset, block in whole_lines(log.read, start, end):
            for line in lines_in(block):
                if not is_sealed(line + b"\n"):
                    cause = f"the line at byte {offset:,} reads back with other bytes"
                    raise _lost(session, offset, cause)
                offset += len(line) + 1
                found += 1
    if found != count:
        raise _lost(session, start, f"{found:,} of {count:,} lines read back")


def check_blobs(blobs: Blobs, stored: Iterable[Blob]) -> None:
    """Check that each blob has the bytes that its hash says; they are read.

    Raises:
        CorruptionError: one has not.
    """
    for blob in stored:
        if not blobs.is_whole(blob):
            raise _lost(blobs.file, 0, f"blob {blob.sha256} reads back with other bytes")


def _lost(path: str, offset: int, cause: str) -> CorruptionError:
    return CorruptionError(f"{path} is not kept: {cause}; {_NEXT}", path, offset)
