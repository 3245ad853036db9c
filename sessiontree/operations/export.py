"""Copies: a subtree, or the path to an entry, as a session file of its own.

Invariants: entries are copied byte for byte (unless their blobs are to be put into
the file, or secrets are to be masked in them), and nothing is hung anew: the new
header takes the uuid that its top entry names as its parent. What merges on the
way refer to, and the labels of what is copied, come along, and so do the blobs of
all that, before the file that needs them has its name; scratch lanes that were
never kept stay behind, unless one is asked for. The new file is made whole
or not at all, and never over another.

Which rows are copied is told by a byte for each row of the file, 1 where it is.
"""

from __future__ import annotations

import os
import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree.core.blob import MARK, Blob, blobs_needed
from sessiontree.core.codec import FORMAT, VERSION, check_seal, decode, encode, head
from sessiontree.core.damage import ignore
from sessiontree.core.entry import HEADER, Entry
from sessiontree.core.garbage import unkept
from sessiontree.core.header import AGENT_SESSION_KEY
from sessiontree.core.index import NO_ROW, Tree
from sessiontree.engine import refs
from sessiontree.engine.cursor import is_cut_above
from sessiontree.engine.reader import Ref
from sessiontree.engine.surveyor import Surveyor
from sessiontree.engine.writer import fresh_uuid, now
from sessiontree.errors import (
    BlobUnreadableError,
    CallerError,
    ContentLostWarning,
    SessionTreeWarning,
)
from sessiontree.operations.inlining import inlined
from sessiontree.storage.atomic import check_free, create_file

if TYPE_CHECKING:
    from sessiontree.redact.redaction import Redaction

HEADER_ROW: Final = 0

_HEADER_OF_ITS_OWN: Final = (
    "type",
    "version",
    "format",
    "uuid",
    "parentUuid",
    "timestamp",
    "id",
    "parentSession",
    "name",
    "metadata",
    "crc",
)


def export(
    session: Surveyor,
    ref: Ref,
    file: str,
    *,
    with_path: bool,
    inline: bool,
    redact: Redaction | None = None,
) -> str:
    """See `Session.export`."""
    top = session.entry(ref)
    with session._journal.lock.alone():  # all of one moment: another thread may write
        tree = session._index()
        row = session._row(top)
        rows = _lasting_below(session, row)
        if with_path:
            _mark(rows, tree.rows_up(row))
        at_leaf = session._row(session.leaf)
        leaf = at_leaf if rows[at_leaf] else refs.tip_of(tree, row)
    settings = {} if with_path or top.type == HEADER else _settings_above(session, row)
    return _copy(session, rows, leaf, top, file, settings, inline=inline, redact=redact)


def _lasting_below(session: Surveyor, top: int) -> bytearray:
    """A row and all below it, but for scratch lanes that were not kept.

    The lane of the row itself is asked for, and so is where the session stands.
    """
    tree = session._index()
    below = tree.rows_below(top)
    lane = tree.lane_of(top)
    of_lane = () if lane is None else tree.rows_on(lane)
    standing = [tree.uuids[row] for row in of_lane if below[row]]
    standing.append(session.leaf.uuid)
    tried = unkept(tree, session._entry_at, session.id, standing)
    left = [row for row in tried if below[row]]
    if left:
        warnings.warn(
            f"{len(left)} {'entry' if len(left) == 1 else 'entries'} of scratch lanes that were "
            "never kept stayed behind; keep the lane first, or export an entry of it, to take "
            "them along",
            SessionTreeWarning,
            stacklevel=4,
        )
    for row in left:
        below[row] = 0
    return below


def _mark(rows: bytearray, marked: Iterable[int]) -> None:
    for row in marked:
        rows[row] = 1


def fork(session: Surveyor, file: str, at: Ref | None) -> str:
    """See `Session.fork`."""
    leaf = session.leaf if at is None else session.entry(at)
    with session._journal.lock.alone():
        tree = session._index()
        row = session._row(leaf)
        rows = bytearray(len(tree))
        _mark(rows, tree.rows_up(row))
    return _copy(session, rows, row, leaf, file, {})


def _settings_above(session: Surveyor, top: int) -> dict[str, Any]:
    """The settings in force above a subtree, which its entries cannot tell."""
    parent = session._index().parents[top]
    if parent == NO_ROW:
        return {}
    context = session.context(session._entry_at(parent))
    found = {
        "model": context.model,
        "thinkingLevel": context.thinking_level,
        "system": context.system,
    }
    return {key: value for key, value in found.items() if value is not None}


def _copy(
    session: Surveyor,
    rows: bytearray,
    leaf: int,
    origin: Entry,
    file: str,
    settings: dict[str, Any],
    *,
    inline: bool = False,
    redact: Redaction | None = None,
) -> str:
    with session._journal.lock.alone():
        tree = session._index()
        rows.extend(bytes(len(tree) - len(rows)))
        _add_merged(session, rows)
        rows[HEADER_ROW] = 0
        _add_labels(session, rows)
        to_leaf = bytearray(len(rows))
        _mark(to_leaf, tree.rows_up(leaf))
    copied = array("i", (row for row, is_copied in enumerate(rows) if is_copied))
    if not copied:
        raise CallerError(
            "there is nothing below the header to copy yet; append to the session first"
        )
    top = next((row for row in copied if to_leaf[row]), copied[0])
    came_from = _came_from(session, origin)
    if _is_cut_above(session, top):
        came_from["cutAbove"] = True
    header = _header(session, session._entry_at(top).parent_uuid, came_from, settings)
    line: Callable[[Entry], bytes] | None = partial(inlined, session) if inline else None
    own_line: Callable[[dict[str, Any]], bytes] = encode
    if redact is not None:
        from sessiontree.operations.redacting import RedactedCopy  # few copies are redacted

        masked = RedactedCopy(session, file, redact, inline=inline)
        line, own_line = masked.line, masked.own_line

    def blocks() -> Iterator[bytes]:
        yield own_line(header) + b"\n"
        if line is None:
            yield from _lines(session, copied)
        else:
            for row in copied:
                yield line(session._entry_at(row)) + b"\n"
        if copied[-1] != leaf or tree.lane_of(leaf) is not None:
            yield own_line(_branch_to(tree.uuids[leaf])) + b"\n"

    check_free(session._disk, file)
    if not inline:
        needed = _readable_blobs(session, copied)
        if redact is None:
            _take_along(session, needed, file)
    create_file(session._disk, file, blocks())
    return file


def _lines(session: Surveyor, rows: array[int]) -> Iterator[bytes]:
    """The lines of rows, each with its LF, byte for byte.

    A wrong checksum is noted as damage of the session.
    """
    tree = session._index()
    lines = session._view.lines_at(tree.offsets[row] for row in rows)
    for row, line in zip(rows, lines, strict=True):
        offset = tree.offsets[row]
        found = head(line, offset, ignore)
        if found is None or found.uuid != tree.uuids[row]:
            raise session._changed(offset)
        check_seal(line, offset, session._view.report)
        yield line + b"\n"


def _readable_blobs(session: Surveyor, rows: array[int]) -> list[Blob]:
    """The blobs that entries need.

    Raises:
        BlobUnreadableError: the system refuses one, which it may no longer do tomorrow.
    """
    needed: dict[Blob, None] = {}
    offsets = session._index().offsets
    for line in session._view.lines_at(offsets[row] for row in rows):
        entry = decode(line, 0, ignore) if stringzilla.find(line, MARK) >= 0 else None
        if entry is not None:
            needed.update(dict.fromkeys(blobs_needed(entry.as_stored)))
    for blob in needed:
        fault = session.blobs.fault(blob)
        if isinstance(fault, BlobUnreadableError):
            raise fault
    return list(needed)


def _take_along(session: Surveyor, needed: list[Blob], file: str) -> None:
    """Link or copy blobs to beside a new file; warn of those lost before."""
    if not needed:
        return
    from sessiontree.storage.blobs import Blobs  # many sessions have none

    for lost in Blobs(session._disk, file).link_from(session.blobs, needed):
        if isinstance(lost, BlobUnreadableError):
            raise lost
        warnings.warn(
            f"the copy lacks a blob, as its original does: {lost}", ContentLostWarning, stacklevel=5
        )


def _add_merged(session: Surveyor, rows: bytearray) -> None:
    """Add the branches that copied merges took in, and those merged into them."""
    tree = session._index()
    merges = set(tree.rows_of_type("merge"))
    waiting = [row for row in merges if rows[row]]
    while waiting:
        merge = session._entry_at(waiting.pop())
        base = merge.get("baseUuid")
        merged = _row_named(tree, merge.get("mergedUuid"))
        for row in tree.rows_up(merged):
            if tree.uuids[row] == base:
                break
            if row in merges and not rows[row]:
                waiting.append(row)
            rows[row] = 1


def _add_labels(session: Surveyor, rows: bytearray) -> None:
    tree = session._index()
    for row in tree.rows_of_type("label"):
        target = _row_named(tree, session._entry_at(row).get("targetUuid"))
        if target != NO_ROW and rows[target]:
            rows[row] = 1


def _row_named(tree: Tree, uuid: Any) -> int:
    return tree.row(uuid) if isinstance(uuid, str) else NO_ROW


def _came_from(session: Surveyor, origin: Entry) -> dict[str, Any]:
    came_from: dict[str, Any] = {"id": session.id}
    if session.file is not None:
        came_from["file"] = os.path.abspath(session.file)
    came_from["uuid"] = origin.uuid
    return came_from


def _is_cut_above(session: Surveyor, top: int) -> bool:
    """Whether what stood above the top entry is left out, here or in an earlier copy."""
    parent = session._index().parents[top]
    if parent != HEADER_ROW:
        return parent != NO_ROW
    return is_cut_above([session.header, session._entry_at(top)], session.header)


def _header(
    session: Surveyor, uuid: str | None, came_from: dict[str, Any], settings: dict[str, Any]
) -> dict[str, Any]:
    """The header of a copy: the old one's facts, a new id, and where it came from."""
    kept = {
        key: value for key, value in session.header.body.items() if key not in _HEADER_OF_ITS_OWN
    }
    fields: dict[str, Any] = {
        "type": HEADER,
        "version": VERSION,
        "format": FORMAT,
        "uuid": uuid or fresh_uuid(),
        "parentUuid": None,
        "timestamp": now(),
        "id": fresh_uuid(),
        **kept,
    }
    if session.name is not None:
        fields["name"] = session.name
    fields["parentSession"] = came_from
    metadata = {**session.metadata, **settings}
    metadata.pop(AGENT_SESSION_KEY, None)
    if metadata:
        fields["metadata"] = metadata
    return fields


def _branch_to(uuid: str) -> dict[str, Any]:
    return {"type": "branch", "uuid": fresh_uuid(), "parentUuid": uuid, "timestamp": now()}
