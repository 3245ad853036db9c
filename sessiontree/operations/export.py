"""Copies: a subtree, or the path to an entry, as a session file of its own.

Invariants:

- Entries are copied byte for byte and keep their parents. The new header takes the uuid
  that the top entry names as its parent.
- Copied too are the branches that copied merges took in, the usage beside copied entries
  (`beside`), the labels of copied entries, and the blobs of all that, before the new file has its
  name. Scratch lanes that were never kept are left out, unless one is asked for.
- Lines keep their order. If the last one is not the leaf, a `branch` entry goes back to it.
- The new file is made whole or not at all, and never over another.
- With `inline`, an entry that was spilled or is a handle is written anew with its content,
  under the same uuid. Spilled content is checked, or nothing is copied; a handle that
  does not resolve stays a handle, with a warning.
- With `redact`, an entry with a secret is written anew, with a checksum of its own and with
  large strings in blobs of the copy. The copy takes no blob that was not searched.

What a fork copies is found by walking up (`lineage`). For a subtree, a byte for each row of the
index, 1 or 0, says whether the row is copied.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sessiontree.context.resolved import is_shown
from sessiontree.core import limits
from sessiontree.core.blocks import EntryContents
from sessiontree.core.codec import FORMAT, VERSION, check_seal, decode, encode, head, seal
from sessiontree.core.damage import ignore
from sessiontree.core.entry import HEADER, Entry, decode_object
from sessiontree.core.garbage import unkept
from sessiontree.core.handle import (
    Blob,
    Handle,
    blob_of,
    blobs_needed,
    may_name_blob,
    media_type_in,
    text_form,
    with_parts,
)
from sessiontree.core.header import AGENT_SESSION_KEY
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.core.limits import Budget
from sessiontree.core.media import base_type, left_out
from sessiontree.core.spill import spill
from sessiontree.engine import names as refs
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
    UsageError,
    warn,
)
from sessiontree.operations.lineage import GIVING_FACTS, CopiedLines, Lineage, add_usage
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.place import whole_path
from sessiontree.storage.places import blobs_of, check_new, check_new_address, create_log, shown
from sessiontree.views.tree import path_rows

if TYPE_CHECKING:
    from sessiontree.handles.resolve import HandleScope
    from sessiontree.redact.redaction import Redaction
    from sessiontree.storage.fs import FileSystem

SPILL_OVER: Final = 32 * 1024  # bytes of a string that stay in a line that is written anew
HEADER_ROW: Final = 0
_OWN_HEADER_KEYS: Final = ("parentSession", "name", "metadata", "crc")
_LINE_KEYS: Final = ("spilled", "crc")
_HANDLE_KEYS: Final = ("handle", "kind", "role")


class Original(NamedTuple):
    """The session that is copied."""

    cursor: Cursor  # its place in the tree
    handles: HandleScope
    file: str | None  # the path of its file; None in memory
    disk: FileSystem  # where copies are made

    @property
    def reader(self) -> TreeReader:
        return self.cursor.reader


def export(
    original: Original,
    ref: Ref,
    file: str,
    *,
    with_path: bool,
    inline: bool,
    redact: Redaction | None = None,
) -> str:
    top = original.cursor.entry(ref)
    with original.cursor.alone():  # one moment: another thread may write
        tree = original.reader.index()
        row = original.reader.row(top)
        rows = _lasting_below(original, row)
        for above in tree.rows_up(row) if with_path else ():
            rows[above] = 1
        at_leaf = original.reader.row(original.cursor.leaf)
        leaf = at_leaf if rows[at_leaf] else refs.tip_of(tree, row)
        lines = _lines_of(original, rows, leaf)
    settings = {} if with_path or top.type == HEADER else _settings_above(original, row)
    return _copy(original, lines, top, file, settings, inline=inline, redact=redact)


def fork(original: Original, file: str, at: Ref | None, facts: Mapping[str, str]) -> str:
    """See `Session.fork`; `facts` are keys of the new header, such as `id`."""
    with original.cursor.alone():  # one moment: another thread may write
        original.reader.whole()
        origin = original.cursor.entry(original.cursor.leaf if at is None else at)
        lines = Lineage(original.reader, origin).lines() or _lines_on_path(original, origin)
    return _copy(original, lines, origin, file, {}, facts)


def inlined(original: Original, entry: Entry) -> bytes:
    """The line of an entry with all its content in it; raises BlobError where some is lost."""
    if entry.type == "handle":
        return _message_line(original, entry)
    return encode(_without(entry, _LINE_KEYS)) if entry.has_spilled else entry.line


def _without(fields: Mapping[str, Any] | Entry, keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: fields[key] for key in fields if key not in keys}


def _message_line(original: Original, entry: Entry) -> bytes:
    try:
        found = original.handles.whole_message(entry)
    except BlobError:
        raise
    except SessionTreeError as error:
        warn(f"entry {entry.uuid} stays a handle: {error}")
        return entry.line
    fields = _without(entry.body, _HANDLE_KEYS + _LINE_KEYS)
    own = fields.pop("metadata", None)
    metadata = {**(own if isinstance(own, dict) else {}), "inlinedFrom": text_form(entry["handle"])}
    return encode({**fields, "type": "message", "message": found, "metadata": metadata})


def _lasting_below(original: Original, top: int) -> bytearray:
    """A row and all below it, except scratch lanes that were not kept.

    The lane of the row itself counts as kept, and so does the session's leaf.
    """
    tree = original.reader.index()
    below = tree.rows_below(top)
    lane = tree.lane_of(top)
    of_lane = () if lane is None else tree.rows_on(lane)
    wanted = [tree.uuids[row] for row in of_lane if below[row]]
    wanted.append(original.cursor.leaf.uuid)
    scratch = unkept(tree, original.reader.entry_at, original.reader.id, wanted)
    left = [row for row in scratch if below[row]]
    if left:
        warn(
            f"{len(left)} {'entry' if len(left) == 1 else 'entries'} of scratch lanes that were "
            "never kept were not copied; to copy them, keep the lane first, or export one of them"
        )
    for row in left:
        below[row] = 0
    return below


def _settings_above(original: Original, top: int) -> dict[str, Any]:
    """The settings in force above a subtree, which its entries do not name."""
    parent = original.reader.index().parents[top]
    if parent == NO_ROW:
        return {}
    context = original.cursor.context(original.reader.entry_at(parent))
    found = context.model, context.thinking_level, context.system
    named = zip(("model", "thinkingLevel", "system"), found, strict=True)
    return {key: value for key, value in named if value is not None}


def _lines_on_path(original: Original, leaf: Entry) -> CopiedLines:
    row = original.reader.row(leaf)
    return _lines_of(original, path_rows(original.reader.index(), row), row)


def _lines_of(original: Original, rows: bytearray, leaf: int) -> CopiedLines:
    reader = original.reader
    tree = reader.index()
    rows.extend(bytes(len(tree) - len(rows)))
    has_header = rows[HEADER_ROW]
    _add_merged(original, rows)
    rows[HEADER_ROW] = has_header
    add_usage(tree, rows)
    rows[HEADER_ROW] = 0
    _add_labels(original, rows)
    copied = [row for row, is_copied in enumerate(rows) if is_copied]
    if not copied:
        raise UsageError("there is nothing below the header to copy; append to the session first")
    to_leaf = path_rows(tree, leaf)
    top = next((row for row in copied if to_leaf[row]), copied[0])
    above = tree.parents[top]
    names = reader.names()
    offsets = array("q", (tree.offsets[row] for row in copied))
    return CopiedLines(
        offsets,
        array("q", (hash(tree.uuids[row]) for row in copied)),
        offsets,
        reader.entry_at(leaf),
        reader.entry_at(top),
        None if above == NO_ROW else reader.entry_at(above),
        names.name,
        names.metadata,
        array("q", (tree.offsets[row] for row in tree.rows_of_type(*GIVING_FACTS) if rows[row])),
    )


def _copy(
    original: Original,
    lines: CopiedLines,
    origin: Entry,
    file: str,
    settings: dict[str, Any],
    facts: Mapping[str, str] = MappingProxyType({}),
    *,
    inline: bool = False,
    redact: Redaction | None = None,
) -> str:
    check_new_address(file)
    header = {**_header(original, lines, origin, settings), **facts}
    line: Callable[[Entry], bytes] | None = partial(inlined, original) if inline else None
    own_line: Callable[[dict[str, Any]], bytes] = encode
    if redact is not None:
        redacted = RedactedCopy(original, file, redact, inline=inline)
        line, own_line = redacted.line, redacted.own_line

    def blocks() -> Iterator[bytes]:
        yield own_line(header) + b"\n"
        if line is None:
            yield from _as_they_are(original, lines)
        else:
            for offset in lines.offsets:
                yield line(original.reader.read_at(offset)) + b"\n"
        leaf = lines.leaf
        if lines.offsets[-1] != leaf.offset or leaf.lane is not None:
            uuid, parent = fresh_uuid(), leaf.uuid
            branch = {"type": "branch", "uuid": uuid, "parentUuid": parent, "timestamp": now()}
            yield own_line(branch) + b"\n"
        else:
            uuid = leaf.uuid
        if corrections := _corrections(original, lines, header):
            keys = {"type": "session_info", "uuid": fresh_uuid(), "parentUuid": uuid}
            yield own_line({**keys, "timestamp": now(), **corrections}) + b"\n"

    check_new(original.disk, file)
    if not inline:
        needed = _readable_blobs(original, lines)
        if redact is None:
            _copy_blobs(original, blobs_of(original.disk, file), needed)
    create_log(original.disk, file, blocks())
    return shown(file)


def _as_they_are(original: Original, lines: CopiedLines) -> Iterator[bytes]:
    view = original.reader.view
    found = view.lines_at(lines.offsets)
    for offset, mark, line in zip(lines.offsets, lines.marks, found, strict=True):
        one = head(line, offset, ignore)
        if one is None or hash(one.uuid) != mark:
            raise original.reader.changed(offset)
        check_seal(line, offset, view.report)
        yield line + b"\n"


def _readable_blobs(original: Original, lines: CopiedLines) -> list[Blob]:
    """The blobs that lines need; raises BlobUnreadableError where the system refuses one."""
    needed: dict[Blob, None] = {}
    for line in original.reader.view.lines_at(lines.with_blobs):
        entry = decode(line, 0, ignore) if may_name_blob(line) else None
        if entry is not None:
            needed.update(dict.fromkeys(blobs_needed(entry.as_stored)))
    for blob in needed:
        fault = original.reader.blobs.fault(blob)
        if isinstance(fault, BlobUnreadableError):
            raise fault
    return list(needed)


def _copy_blobs(original: Original, blobs: Blobs, needed: Iterable[Blob]) -> None:
    for lost in blobs.link_from(original.reader.blobs, needed):
        if isinstance(lost, BlobUnreadableError):
            raise lost
        warn(f"the copy lacks a blob, as its original does: {lost}", ContentLostWarning)


def _add_merged(original: Original, rows: bytearray) -> None:
    tree = original.reader.index()
    merges = set(tree.rows_of_type("merge"))
    waiting = [row for row in merges if rows[row]]
    name = original.file or "the session"
    added = Budget(limits.MERGED_INTO_COPY, more=10 * len(tree), name=name)
    done: set[tuple[int, str | None]] = set()
    bases: dict[str | None, int] = {}
    passed = array("i", bytes(4 * len(tree)))  # the base up to which a row was passed last
    while waiting:
        merge = original.reader.entry_at(waiting.pop())
        base = named if isinstance(named := merge.get("baseUuid"), str) else None
        merged = _row_named(tree, merge.get("mergedUuid"))
        if (ends := (merged, base)) in done:
            continue
        done.add(ends)
        number = bases.setdefault(base, len(bases) + 1)
        for row in tree.rows_up(merged):
            if tree.uuids[row] == base or passed[row] == number:
                break
            passed[row] = number
            added.take()
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


def _header(
    original: Original, lines: CopiedLines, origin: Entry, settings: dict[str, Any]
) -> dict[str, Any]:
    reader = original.reader
    parent_session: dict[str, Any] = {"id": reader.id}
    if original.file is not None:
        parent_session["file"] = whole_path(original.file)
    parent_session["uuid"] = origin.uuid
    cut_above = lines.above is not None
    if lines.above is not None and lines.above.offset == reader.header.offset:
        cut_above = is_cut_above([reader.header, lines.top], reader.header)
    if cut_above:
        parent_session["cutAbove"] = True
    fields: dict[str, Any] = {
        "type": HEADER,
        "version": VERSION,
        "format": FORMAT,
        "uuid": lines.top.parent_uuid or fresh_uuid(),
        "parentUuid": None,
        "timestamp": now(),
        "id": fresh_uuid(),
    }
    fields.update(_without(reader.header.body, (*fields, *_OWN_HEADER_KEYS)))
    if lines.name is not None:
        fields["name"] = lines.name
    fields["parentSession"] = parent_session
    metadata = {**lines.metadata, **settings}
    metadata.pop(AGENT_SESSION_KEY, None)
    if metadata:
        fields["metadata"] = metadata
    return fields


def _corrections(
    original: Original, lines: CopiedLines, header: Mapping[str, Any]
) -> dict[str, Any]:
    """What the header of a copy says of the session, and copied lines say otherwise."""
    name, own = header.get("name"), header.get("metadata", {})
    said, metadata = name, dict(own)
    for entry in map(original.reader.read_at, lines.facts):
        told = entry.get("state") if entry.type == "compaction" else entry.body
        told = told if isinstance(told, dict | Mapping) else {}
        said = told["name"] if isinstance(told.get("name"), str) else said
        if entry.type == "session_info" and isinstance(patch := told.get("metadata"), dict):
            metadata |= patch
    wrong = {key: own.get(key) for key in metadata if metadata[key] != own.get(key)}
    named = {"name": name} if said != name else {}
    return {**named, **({"metadata": wrong} if wrong else {})}


class RedactedCopy:
    """The lines of a copy whose secrets are masked; `inline` puts all content into them."""

    def __init__(
        self, original: Original, file: str, redaction: Redaction, *, inline: bool
    ) -> None:
        redaction.know_homes_of(original.reader.header)
        self._original = original
        self._redaction = redaction
        self._inline = inline
        self._blobs = blobs_of(original.disk, file)  # of the copy

    def line(self, entry: Entry) -> bytes:
        """The line of an entry in the copy; the blobs it needs are there when this returns."""
        line = entry.line
        if self._inline:
            line = inlined(self._original, entry)
            fields: Mapping[str, Any] = decode_object(line)
            replaced = False
        else:
            fields, replaced = self._whole(entry)
        masked = masked_keys(fields, entry.uuid, self._redaction)
        if masked is not fields or replaced or hides_keys(line):
            return self._encoded(masked)
        if not self._inline and may_name_blob(entry.line):
            _copy_blobs(self._original, self._blobs, blobs_needed(entry.as_stored))
        return line

    def own_line(self, fields: Mapping[str, Any]) -> bytes:
        """The line of an entry that only the copy has, or has in another form."""
        return self._encoded(self._redaction.value(fields, str(fields["uuid"])))

    def _whole(self, entry: Entry) -> tuple[Mapping[str, Any], bool]:
        missing: list[str] = []
        whole = EntryContents(None, False, missing).whole(entry)
        for cause in missing:
            warn(cause, ContentLostWarning)
        fields = _without(whole, _LINE_KEYS)
        blob = blob_of(fields.get("handle")) if entry.type == "handle" else None
        if blob is not None:
            return self._blob_message(entry, fields, blob.size), True
        return fields, bool(missing)

    def _blob_message(self, entry: Entry, fields: Mapping[str, Any], size: int) -> dict[str, Any]:
        """The keys of a message with the content of a handle's blob, as far as it is text."""
        media_type = base_type(media_type_in(fields["handle"]))
        if is_shown(media_type, size):
            found = self._original.handles.messages([entry])[0]
            message = found if isinstance(found, SessionTreeError) else found.message
        else:
            self._redaction.left_out.append((entry.uuid, media_type, size))
            message = {"role": "user", "content": left_out(media_type, size)}
        if isinstance(message, SessionTreeError):
            warn(str(message), ContentLostWarning)
            message = {"role": "user", "content": f"[left out: {message}]"}
        return {**_without(fields, _HANDLE_KEYS), "type": "message", "message": message}

    def _encoded(self, fields: Mapping[str, Any]) -> bytes:
        return written_again(fields, None if self._inline else SPILL_OVER, self._blobs)


def written_again(fields: Mapping[str, Any], spill_over: int | None, blobs: Blobs) -> bytes:
    """The line of an entry with other content, whose large strings are put into blobs."""

    def store(content: bytes, media_type: str) -> str:
        return str(Handle.blob(*blobs.put(content), media_type))

    spilled = spill(_without(fields, _LINE_KEYS), spill_over, store)
    try:
        return encode(spilled)
    except EntryError:  # a lone surrogate, or a nesting that only other programs write
        return seal(json.dumps(spilled, separators=(",", ":")).encode())


def masked_keys(fields: Mapping[str, Any], entry: str, redaction: Redaction) -> Mapping[str, Any]:
    """The keys of an entry with all secrets masked; the same object if there is none.

    The parts of a handle are masked one by one, so it stays well formed.
    """
    parted = with_parts(fields)
    masked: Mapping[str, Any] = redaction.value(parted, entry)
    if masked is parted:
        return fields
    if parted is fields:
        return masked
    if masked["handle"] == parted["handle"]:
        return {**masked, "handle": fields["handle"]}
    parts = dict(masked["handle"])
    metadata = {**parts.pop("metadata", {}), **masked.get("metadata", {})}
    more = {"metadata": metadata} if metadata else {}
    try:
        return {**masked, "handle": str(Handle(**parts)), **more}
    except HandleError:  # the version was masked
        return masked


def hides_keys(line: bytes) -> bool:
    """Whether a line holds more than its keys do: a key twice, or text that is not JSON."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("a key is there twice")

    try:
        json.loads(line, object_pairs_hook=check)
    except (ValueError, RecursionError):
        return True
    return False
