"""Stats: how large a session is, and what it cost.

Invariants: the whole file counts, with all branches and lanes, and its usage as `spending` gives
it; no blob is read.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from sessiontree.core.blob import Blob
from sessiontree.core.usage import Usage
from sessiontree.operations.outline import count_branches
from sessiontree.operations.spending import may_have_usage, spending

if TYPE_CHECKING:
    from sessiontree.engine.cursor import Cursor
    from sessiontree.engine.reader import TreeReader


class Stats(msgspec.Struct, frozen=True):
    """A session in numbers.

    Attributes:
        types: the number of entries of each type, including the header.
        branches: the number of branches, without scratch lanes that were never kept.
        lanes: the number of entries on each lane; entries without a lane count for `main`.
        file_bytes: the size of the session file.
        blob_bytes: the size of all blobs beside the file.
        blobs: the number of blobs beside the file.
        lost_blobs: the number of blobs that entries need, but that are missing or of a wrong size.
        usage: the tokens and the cost of all answers, summaries and `usage` entries.
        models: the tokens and the cost for each known model (`provider/model`).
    """

    types: dict[str, int]
    branches: int
    lanes: dict[str, int]
    file_bytes: int
    blob_bytes: int
    blobs: int
    lost_blobs: int
    usage: Usage
    models: dict[str, Usage]

    @property
    def entries(self) -> int:
        """The number of entries, including the header."""
        return sum(self.types.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `stats --json` prints."""
        return {
            "entries": self.entries,
            "types": self.types,
            "branches": self.branches,
            "lanes": self.lanes,
            "bytes": {"file": self.file_bytes, "blobs": self.blob_bytes},
            "blobs": self.blobs,
            "lostBlobs": self.lost_blobs,
            "usage": self.usage.as_dict(),
            "models": {name: usage.as_dict() for name, usage in self.models.items()},
        }


def stats(cursor: Cursor, file_bytes: int) -> Stats:
    """See `Session.stats`; `file_bytes` is the size of the session file."""
    reader = cursor.reader
    tree = reader.index()
    rows = range(len(tree))
    needed: set[Blob] = set()
    total = Usage()
    models: dict[str, Usage] = {}
    for spent in spending(cursor, needed):
        total += spent.usage
        if name := spent.name:
            models[name] = models.get(name, Usage()) + spent.usage
    blobs = list(reader.blobs.blobs())
    return Stats(
        types=dict(Counter(map(tree.type_of, rows)).most_common()),
        branches=count_branches(reader),
        lanes=dict(Counter(tree.lane_of(row) or "main" for row in rows)),
        file_bytes=file_bytes,
        blob_bytes=sum(blob.size for blob in blobs),
        blobs=len(blobs),
        lost_blobs=_lost(reader, needed),
        usage=total,
        models=models,
    )


def lost_blobs(reader: TreeReader) -> int:
    """The number of blobs that entries need, but that are missing or of a wrong size."""
    needed: set[Blob] = set()
    for _ in may_have_usage(reader, needed):
        pass
    return _lost(reader, needed)


def _lost(reader: TreeReader, needed: set[Blob]) -> int:
    return sum(reader.blobs.fault(blob) is not None for blob in needed)
