"""Copies: a subtree, or the path to an entry, as a session file of its own.

Invariants: entries are copied byte for byte (unless their blobs are to be put into
the file, or secrets are to be masked in them), and nothing is hung anew: the new
header takes the uuid that its top entry names as its parent. What merges on the
way refer to, and the labels of what is copied, come along, and so do the blobs of
all that, before the file that needs them has its name; scratch lanes that were
never kept stay behind, unless one is asked for. The new file is made whole
or not at all, and never over another.

Which rows are copied is told by a byte for each row of the file, 1 where it is.

Inlining: an entry as it would be in a file without blobs beside it.

Invariants: an entry that needs no blob and is no handle stays byte for byte; what
was spilled comes back checked, or nothing is copied; a handle becomes the message
it stands for, with all its bytes, under the same uuid and with the same preview, or
stays a handle with a warning.

Redacting: the entries of a session as they go into a copy, with their secrets masked.

Invariants: an entry without a secret stays byte for byte; any other is written anew,
sealed by a checksum of its own, what is large in it in blobs of the copy's own; the
copy takes no blob along that was not looked through.
"""

from __future__ import annotations

import json
import os
import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree.context.resolved import is_shown
from sessiontree.core.blob import MARK, Blob, blob_of, blobs_needed
from sessiontree.core.blocks import Contents
from sessiontree.core.codec import FORMAT, VERSION, check_seal, decode, encode, head, seal
from sessiontree.core.damage import ignore
from sessiontree.core.embedded import left_out
from sessiontree.core.entry import HEADER, Entry, decode_object
from sessiontree.core.garbage import unkept
from sessiontree.core.handle import Handle
from sessiontree.core.header import AGENT_SESSION_KEY
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.core.media import base_type
from sessiontree.core.spill import spill
from sessiontree.engine import refs
from sessiontree.engine.cursor import Cursor, Ref, is_cut_above
from sessiontree.engine.reader import TreeReader
from sessiontree.engine.writer import fresh_uuid, now
from sessiontree.errors import (
    BlobError,
    BlobUnreadableError,
    ContentLostWarning,
    EntryError,
    HandleError,
    SessionTreeError,
    SessionTreeWarning,
    UsageError,
)
from sessiontree.redact.redaction import Redaction
from sessiontree.redact.rules import homes_in
from sessiontree.storage.atomic import check_free, create_file
from sessiontree.storage.blobs import Blobs

if TYPE_CHECKING:
    from sessiontree.handles.resolve import HandleScope
    from sessiontree.storage.fs import FileSystem


class Original(NamedTuple):
    """What is copied.

    Attributes:
        cursor: where its session is.
        handles: resolves the handles in it.
        file: the path of its file; None in memory.
        disk: where copies are made.
    """

    cursor: Cursor
    handles: HandleScope
    file: str | None
    disk: FileSystem

    @property
    def reader(self) -> TreeReader:
        return self.cursor.reader


_HANDLE_KEYS = ("handle", "kind", "role", "spilled", "crc")


def inlined(original: Original, entry: Entry) -> bytes:
    """The line of an entry with all its content in it.

    Raises:
        BlobError: content that cannot be had back as it was.
    """
    if entry.type == "handle":
        return _message_line(original, entry)
    if not entry.has_spilled:
        return entry.line
    return encode({key: entry[key] for key in entry if key not in ("spilled", "crc")})


def _message_line(original: Original, entry: Entry) -> bytes:
    try:
        found = original.handles.whole_message(entry)
    except BlobError:
        raise
    except SessionTreeError as error:
        message = f"entry {entry.uuid} stays a handle: {error}"
        warnings.warn(message, SessionTreeWarning, stacklevel=6)
        return entry.line
    fields: dict[str, Any] = {k: v for k, v in entry.body.items() if k not in _HANDLE_KEYS}
    own = fields.pop("metadata", None)
    came = {**(own if isinstance(own, dict) else {}), "inlinedFrom": str(entry["handle"])}
    return encode({**fields, "type": "message", "message": found, "metadata": came})


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
    original: Original,
    ref: Ref,
    file: str,
    *,
    with_path: bool,
    inline: bool,
    redact: Redaction | None = None,
) -> str:
    """See `Session.export_branch`."""
    top = original.cursor.entry(ref)
    with original.cursor.alone():  # all of one moment: another thread may write
        tree = original.reader.index()
        row = original.reader.row(top)
        rows = _lasting_below(original, row)
        if with_path:
            _mark(rows, tree.rows_up(row))
        at_leaf = original.reader.row(original.cursor.leaf)
        leaf = at_leaf if rows[at_leaf] else refs.tip_of(tree, row)
    settings = {} if with_path or top.type == HEADER else _settings_above(original, row)
    return _copy(original, rows, leaf, top, file, settings, inline=inline, redact=redact)


def _lasting_below(original: Original, top: int) -> bytearray:
    """A row and all below it, but for scratch lanes that were not kept.

    The lane of the row itself is asked for, and so is where the session stands.
    """
    tree = original.reader.index()
    below = tree.rows_below(top)
    lane = tree.lane_of(top)
    of_lane = () if lane is None else tree.rows_on(lane)
    standing = [tree.uuids[row] for row in of_lane if below[row]]
    standing.append(original.cursor.leaf.uuid)
    tried = unkept(tree, original.reader.entry_at, original.reader.id, standing)
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


def fork(original: Original, file: str, at: Ref | None) -> str:
    """See `Session.fork`."""
    leaf = original.cursor.leaf if at is None else original.cursor.entry(at)
    with original.cursor.alone():
        tree = original.reader.index()
        row = original.reader.row(leaf)
        rows = bytearray(len(tree))
        _mark(rows, tree.rows_up(row))
    return _copy(original, rows, row, leaf, file, {})


def _settings_above(original: Original, top: int) -> dict[str, Any]:
    """The settings in force above a subtree, which its entries cannot tell."""
    parent = original.reader.index().parents[top]
    if parent == NO_ROW:
        return {}
    context = original.cursor.context(original.reader.entry_at(parent))
    found = {
        "model": context.model,
        "thinkingLevel": context.thinking_level,
        "system": context.system,
    }
    return {key: value for key, value in found.items() if value is not None}


def _copy(
    original: Original,
    rows: bytearray,
    leaf: int,
    origin: Entry,
    file: str,
    settings: dict[str, Any],
    *,
    inline: bool = False,
    redact: Redaction | None = None,
) -> str:
    with original.cursor.alone():
        tree = original.reader.index()
        rows.extend(bytes(len(tree) - len(rows)))
        _add_merged(original, rows)
        rows[HEADER_ROW] = 0
        _add_labels(original, rows)
        to_leaf = bytearray(len(rows))
        _mark(to_leaf, tree.rows_up(leaf))
    copied = array("i", (row for row, is_copied in enumerate(rows) if is_copied))
    if not copied:
        raise UsageError(
            "there is nothing below the header to copy yet; append to the session first"
        )
    top = next((row for row in copied if to_leaf[row]), copied[0])
    came_from = _came_from(original, origin)
    if _is_cut_above(original, top):
        came_from["cutAbove"] = True
    header = _header(original, original.reader.entry_at(top).parent_uuid, came_from, settings)
    line: Callable[[Entry], bytes] | None = partial(inlined, original) if inline else None
    own_line: Callable[[dict[str, Any]], bytes] = encode
    if redact is not None:
        masked = RedactedCopy(original, file, redact, inline=inline)
        line, own_line = masked.line, masked.own_line

    def blocks() -> Iterator[bytes]:
        yield own_line(header) + b"\n"
        if line is None:
            yield from _lines(original, copied)
        else:
            for row in copied:
                yield line(original.reader.entry_at(row)) + b"\n"
        if copied[-1] != leaf or tree.lane_of(leaf) is not None:
            yield own_line(_branch_to(tree.uuids[leaf])) + b"\n"

    check_free(original.disk, file)
    if not inline:
        needed = _readable_blobs(original, copied)
        if redact is None:
            _take_along(original, needed, file)
    create_file(original.disk, file, blocks())
    return file


def _lines(original: Original, rows: array[int]) -> Iterator[bytes]:
    """The lines of rows, each with its LF, byte for byte.

    A wrong checksum is noted as damage of the session.
    """
    tree = original.reader.index()
    lines = original.reader.view.lines_at(tree.offsets[row] for row in rows)
    for row, line in zip(rows, lines, strict=True):
        offset = tree.offsets[row]
        found = head(line, offset, ignore)
        if found is None or found.uuid != tree.uuids[row]:
            raise original.reader.changed(offset)
        check_seal(line, offset, original.reader.view.report)
        yield line + b"\n"


def _readable_blobs(original: Original, rows: array[int]) -> list[Blob]:
    """The blobs that entries need.

    Raises:
        BlobUnreadableError: the system refuses one, which it may no longer do tomorrow.
    """
    needed: dict[Blob, None] = {}
    offsets = original.reader.index().offsets
    for line in original.reader.view.lines_at(offsets[row] for row in rows):
        entry = decode(line, 0, ignore) if stringzilla.find(line, MARK) >= 0 else None
        if entry is not None:
            needed.update(dict.fromkeys(blobs_needed(entry.as_stored)))
    for blob in needed:
        fault = original.reader.blobs.fault(blob)
        if isinstance(fault, BlobUnreadableError):
            raise fault
    return list(needed)


def _take_along(original: Original, needed: list[Blob], file: str) -> None:
    """Link or copy blobs to beside a new file; warn of those lost before."""
    if not needed:
        return
    for lost in Blobs(original.disk, file).link_from(original.reader.blobs, needed):
        if isinstance(lost, BlobUnreadableError):
            raise lost
        warnings.warn(
            f"the copy lacks a blob, as its original does: {lost}", ContentLostWarning, stacklevel=5
        )


def _add_merged(original: Original, rows: bytearray) -> None:
    """Add the branches that copied merges took in, and those merged into them."""
    tree = original.reader.index()
    merges = set(tree.rows_of_type("merge"))
    waiting = [row for row in merges if rows[row]]
    while waiting:
        merge = original.reader.entry_at(waiting.pop())
        base = merge.get("baseUuid")
        merged = _row_named(tree, merge.get("mergedUuid"))
        for row in tree.rows_up(merged):
            if tree.uuids[row] == base:
                break
            if row in merges and not rows[row]:
                waiting.append(row)
            rows[row] = 1


def _add_labels(original: Original, rows: bytearray) -> None:
    tree = original.reader.index()
    for row in tree.rows_of_type("label"):
        target = _row_named(tree, original.reader.entry_at(row).get("targetUuid"))
        if target != NO_ROW and rows[target]:
            rows[row] = 1


def _row_named(tree: TreeIndex, uuid: Any) -> int:
    return tree.row(uuid) if isinstance(uuid, str) else NO_ROW


def _came_from(original: Original, origin: Entry) -> dict[str, Any]:
    came_from: dict[str, Any] = {"id": original.reader.id}
    if original.file is not None:
        came_from["file"] = os.path.abspath(original.file)
    came_from["uuid"] = origin.uuid
    return came_from


def _is_cut_above(original: Original, top: int) -> bool:
    """Whether what stood above the top entry is left out, here or in an earlier copy."""
    parent = original.reader.index().parents[top]
    if parent != HEADER_ROW:
        return parent != NO_ROW
    return is_cut_above(
        [original.reader.header, original.reader.entry_at(top)], original.reader.header
    )


def _header(
    original: Original, uuid: str | None, came_from: dict[str, Any], settings: dict[str, Any]
) -> dict[str, Any]:
    """The header of a copy: the old one's facts, a new id, and where it came from."""
    kept = {
        key: value
        for key, value in original.reader.header.body.items()
        if key not in _HEADER_OF_ITS_OWN
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
    if original.reader.names().name is not None:
        fields["name"] = original.reader.names().name
    fields["parentSession"] = came_from
    metadata = {**original.reader.names().metadata, **settings}
    metadata.pop(AGENT_SESSION_KEY, None)
    if metadata:
        fields["metadata"] = metadata
    return fields


def _branch_to(uuid: str) -> dict[str, Any]:
    return {"type": "branch", "uuid": fresh_uuid(), "parentUuid": uuid, "timestamp": now()}


SPILL_OVER: Final = 32 * 1024
"""Bytes of a string that stay in the line of an entry that is written anew."""


_OF_THE_LINE: Final = ("spilled", "crc")
_OF_A_HANDLE: Final = ("handle", "kind", "role")


def homes_in_header(header: Entry) -> list[str]:
    """The home directories that a session's header names."""
    cwd = header.get("cwd")
    return homes_in(cwd) if isinstance(cwd, str) else []


class RedactedCopy:
    """The lines of a copy whose secrets are masked.

    Args:
        original: what is copied.
        file: the copy's path; its blobs go beside it.
        redaction: masks them.
        inline: whether everything goes into the file itself.
    """

    def __init__(
        self, original: Original, file: str, redaction: Redaction, *, inline: bool
    ) -> None:
        redaction.know_homes(homes_in_header(original.reader.header))
        self._original = original
        self._redaction = redaction
        self._inline = inline
        self._blobs = Blobs(original.disk, file)

    def line(self, entry: Entry) -> bytes:
        """The line of an entry in the copy; the blobs it needs are there when this returns."""
        line = entry.line
        if self._inline:
            line = inlined(self._original, entry)
            fields: Mapping[str, Any] = decode_object(line)
            stands_in = False
        else:
            fields, stands_in = self._whole(entry)
        masked = self._redaction.value(fields, entry.uuid)
        if masked is fields and not stands_in and not _hides_keys(line):
            self._take_along(entry)
            return line
        return self._encoded(_with_sound_handle(masked, fields, self._redaction))

    def own_line(self, fields: Mapping[str, Any]) -> bytes:
        """The line of an entry that only the copy has, or that it has in its own way."""
        return self._encoded(self._redaction.value(fields, str(fields["uuid"])))

    def _whole(self, entry: Entry) -> tuple[Mapping[str, Any], bool]:
        """The keys of an entry with its blobs put back, and whether some stand in for others."""
        missing: list[str] = []
        whole = Contents(None, False, missing).whole(entry)
        for cause in missing:
            warnings.warn(cause, ContentLostWarning, stacklevel=7)
        fields = {key: whole[key] for key in whole if key not in _OF_THE_LINE}
        if entry.type == "handle" and blob_of(_text(fields.get("handle"))) is not None:
            return self._looked_through(entry, fields), True
        return fields, bool(missing)

    def _looked_through(self, entry: Entry, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The keys of a message that says what a handle's blob does, as far as it is text."""
        handle = Handle.parse(fields["handle"])
        media_type = base_type(handle.meta[2] if len(handle.meta) > 2 else None)
        size = int(handle.meta[1])
        if is_shown(media_type, size):
            found = self._original.handles.messages([entry])[0]
            said = found if isinstance(found, SessionTreeError) else found.message
        else:
            self._redaction.left_out.append((entry.uuid, media_type, size))
            said = {"role": "user", "content": left_out(media_type, size)}
        if isinstance(said, SessionTreeError):
            warnings.warn(str(said), ContentLostWarning, stacklevel=8)
            said = {"role": "user", "content": f"[left out: {said}]"}
        kept = {key: value for key, value in fields.items() if key not in _OF_A_HANDLE}
        return {**kept, "type": "message", "message": said}

    def _take_along(self, entry: Entry) -> None:
        if self._inline or MARK not in entry.line:
            return
        for lost in self._blobs.link_from(
            self._original.reader.blobs, blobs_needed(entry.as_stored)
        ):
            warnings.warn(str(lost), ContentLostWarning, stacklevel=7)

    def _encoded(self, fields: Mapping[str, Any]) -> bytes:
        fields = {key: value for key, value in fields.items() if key not in _OF_THE_LINE}
        spilled = spill(fields, None if self._inline else SPILL_OVER, self._store)
        try:
            return encode(spilled)
        except EntryError:  # a lone surrogate, or a nesting that only other programs write
            return seal(json.dumps(spilled, separators=(",", ":")).encode())

    def _store(self, content: bytes, media_type: str) -> str:
        return str(Handle.blob(*self._blobs.put(content), media_type))


def _with_sound_handle(
    masked: Mapping[str, Any], fields: Mapping[str, Any], redaction: Redaction
) -> Mapping[str, Any]:
    """The same, with a handle whose parts were masked, not the text that they make up."""
    handle = fields.get("handle")
    if fields.get("type") != "handle" or masked.get("handle") == handle:
        return masked
    try:
        parsed = Handle.parse(_text(handle))
        meta = tuple(redaction.text(part) for part in parsed.meta)
        sound = str(Handle(parsed.plugin, parsed.version, parsed.method, meta))
    except HandleError:
        return masked
    return {**masked, "handle": sound}


def _hides_keys(line: bytes) -> bool:
    """Whether a line says more than its keys do: a key twice, or what is no JSON."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("a key stands there twice")

    try:
        json.loads(line, object_pairs_hook=check)
    except (ValueError, RecursionError):
        return True
    return False


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
