"""Stats: how large a session is, and what it cost.

Invariants: the whole file counts, with all branches and lanes; the cost of one answer of a
model counts once, however many entries repeat it; no blob is read, and no handle resolved but
those that may be answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sessiontree.context.settings import model_of
from sessiontree.core.blob import MARK, Blob, blobs_needed
from sessiontree.core.blocks import role_of_entry
from sessiontree.core.entry import Entry, decode_object
from sessiontree.core.usage import Usage, usage_of
from sessiontree.operations.messages import with_messages
from sessiontree.operations.outline import count_branches

if TYPE_CHECKING:
    from sessiontree.engine.cursor import Cursor
    from sessiontree.engine.reader import TreeReader


# The key that identifies an answer, by type of entry: several entries may repeat one.
_ANSWERS: Final = {"message": "id", "handle": "id", "message_end": "messageUuid"}


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
    for model, usage in _spent(cursor, needed):
        total += usage
        if model:
            models[model] = models.get(model, Usage()) + usage
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
    for _ in _may_have_usage(reader, needed):
        pass
    return _lost(reader, needed)


def _lost(reader: TreeReader, needed: set[Blob]) -> int:
    return sum(reader.blobs.fault(blob) is not None for blob in needed)


def _spent(cursor: Cursor, needed: set[Blob]) -> Iterator[tuple[str, Usage]]:
    """The model and the usage of each entry that has one; of a repeated answer the last.

    The blobs that entries need are added to `needed`, so that the file is read once.
    """
    answers: dict[str, tuple[str, Usage]] = {}
    lack = "their usage is not counted"
    entries = _may_have_usage(cursor.reader, needed)
    for entry, message in with_messages(entries, cursor.messages, lack, _may_be_answer):
        fields = entry.message_as_stored if entry.type == "message" else entry.as_stored
        fields = fields if message is None else message
        if not isinstance(fields, dict) or not isinstance(fields.get("usage"), dict):
            continue
        spent = _model(fields), usage_of(fields["usage"])
        answer = fields.get(_ANSWERS.get(entry.type, ""))
        if isinstance(answer, str) and answer:
            answers[answer] = spent
        else:
            yield spent
    yield from answers.values()


def _may_have_usage(reader: TreeReader, needed: set[Blob]) -> Iterator[Entry]:
    view = reader.whole()
    for offset, line in view.entry_lines():
        if MARK in line:
            needed.update(blobs_needed(decode_object(line)))
        if b'"usage"' not in line and b'"handle"' not in line:
            continue
        entry = view.decode(line, offset)
        if entry is not None:
            yield entry


def _may_be_answer(handle: Entry) -> bool:
    """Whether a handle of a message may be an answer, and does not have its usage itself."""
    return role_of_entry(handle) in (None, "assistant") and "usage" not in handle.as_stored


def _model(fields: dict[str, Any]) -> str:
    model = model_of(fields)
    if model is None:
        return ""
    provider, name = model["provider"], model["modelId"]
    return f"{provider}/{name}" if isinstance(provider, str) else str(name)
