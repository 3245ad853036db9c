"""Writer: a reader that appends.

Invariants: an entry returned is an entry kept; the next entry hangs below the
one this session last saw or wrote, whatever others wrote meanwhile; annotations
hang below the lane's leaf in the file and do not move this session, and what a
trial says of anything but itself is said on main; whatever is refused leaves the
file as it was.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from time import time_ns
from typing import Any, Final

from msgspec import UNSET

from sessiontree.core.blob import blob_of, blobs_needed
from sessiontree.core.codec import encode_new
from sessiontree.core.entry import ANNOTATIONS, REFERENCES, Entry, check_fields, stored, with_fetch
from sessiontree.core.garbage import is_scratch
from sessiontree.core.index import NO_ROW
from sessiontree.core.message import Message, check_message
from sessiontree.engine import ancestry, refs
from sessiontree.engine.appender import Appender
from sessiontree.engine.reader import Ref
from sessiontree.errors import BlobMissingError, EntryError, RefError, UsageError
from sessiontree.storage.log import FileLog

_OF_THE_PATH: Final = frozenset({"compaction", "merge", "context_edit"})
"""Types that are wrong anywhere but on the path they were made for."""


Wanted = tuple[str, Mapping[str, Any], str]
"""An entry to be written: its type, its fields and its uuid."""


def now() -> str:
    """This moment as the format writes it: UTC, milliseconds, `Z`."""
    return _to_the_millisecond(time_ns() // 1_000_000)


@lru_cache(maxsize=1)
def _to_the_millisecond(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_to_the_second(seconds)}.{rest:03d}Z"


@lru_cache(maxsize=1)
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


def fresh_uuid() -> str:
    """A random UUIDv4 (RFC 9562, 5.4)."""
    text = os.urandom(16).hex("-", 6)  # the outer two of its four dashes
    return f"{text[:13]}-4{text[14:17]}-{_VARIANTS[text[17]]}{text[18:]}"


_VARIANTS: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


class Writer(Appender):
    """The writing half of a session."""

    def __init__(
        self, log: FileLog, lane: str | None, hooks: Iterable[Any], spill_over: int | None
    ) -> None:
        super().__init__(log, lane, hooks)
        self._spill_over = spill_over

    def append(
        self,
        type: str,
        *,
        parent: Ref | None = None,
        metadata: Mapping[str, Any] | None = None,
        uuid: str | None = None,
        **fields: Any,
    ) -> Entry:
        """Write one entry and return it; it is kept when this returns.

        Args:
            type: an entry type; an unknown one is written as given.
            parent: what it hangs below, by default `leaf`.
            metadata: small facts of the caller's own.
            uuid: its uuid, by default a fresh one.
            fields: the fields of the type, with the names they have in the file.

        Raises:
            EntryError: fields that are missing, wrong, or no JSON; a uuid that is taken.
            RefError: a parent or target that is not there.
            BlobError: a handle of a blob that this session does not have.
            HookRejectedError: a hook refused.
        """
        self._log.check_writable()
        self._is_batching()  # a forked process stands elsewhere than its parent
        seen = self._leaf
        if metadata is not None:
            fields["metadata"] = metadata
        check_fields(type, fields)
        if type in REFERENCES or type == "branch":
            self._check_references(type, fields)
            self._check_name(type, fields)
        if uuid is not None:
            self._check_fresh(uuid)
        if type in ANNOTATIONS:
            if parent is not None:
                raise EntryError(f"a {type} hangs below the lane's leaf; leave 'parent' out")
            return self._annotate(type, fields, uuid)
        above = None if parent is None else self.entry(parent)
        if type == "compaction" and fields["firstKeptEntryUuid"] != uuid:
            self._check_first_kept(fields["firstKeptEntryUuid"], above)
        if type == "handle":
            with self._keeping_blob(fields["handle"]):
                return self._write(type, fields, above, uuid=uuid)
        return self._write(type, fields, above, uuid=uuid, seen=seen)

    @contextlib.contextmanager
    def _keeping_blob(self, handle: Any) -> Iterator[None]:
        """Where a handle points to a blob of this session: keep gc from it until it is named.

        Raises:
            BlobError: it is not there as it was.
        """
        blob = blob_of(handle)
        if blob is None:
            yield
            return
        self.blobs.confirm(blob)
        with self._holding():
            if not self.blobs.has(blob):
                raise BlobMissingError(
                    f"blob {blob.sha256} was removed while its handle was appended; store it "
                    "again, and append it then",
                    self.blobs.file,
                    blob.sha256,
                )
            yield

    def append_message(
        self,
        message: Message,
        *,
        parent: Ref | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Write one message, verbatim: a dict with a `role`, in any provider's shape.

        Args:
            message: it is not kept: what becomes of the dict later changes nothing.
            parent, metadata: as for `append`.

        Raises:
            EntryError: it is no message, or holds what JSON cannot carry.
        """
        if metadata is not None or self._waiting is not None:
            return self.append("message", message=message, parent=parent, metadata=metadata)
        check_message(message)
        above = None if parent is None else self.entry(parent)
        return self._write("message", {"message": message}, above)

    def _check_references(self, type: str, fields: Mapping[str, Any]) -> None:
        for key in REFERENCES.get(type, ()):
            uuid = fields[key]
            if (type, key) == ("compaction", "firstKeptEntryUuid"):
                continue  # its own uuid keeps nothing; checked against the path
            if self._by_uuid(uuid) is None:
                raise RefError(f"{key!r} of the {type} names no entry: {uuid}", uuid)

    def _check_name(self, type: str, fields: Mapping[str, Any]) -> None:
        """Refuse a name that no ref could spell, or that stands for another entry."""
        if type == "branch" and fields.get("name") is not None:
            self._check_name_is_free(refs.check_name(fields["name"], "branch name"))
        elif type == "label" and fields["label"] is not None:
            name = refs.check_name(fields["label"], "label")
            self._check_name_is_free(name, fields["targetUuid"])

    def _check_fresh(self, uuid: str) -> None:
        if not isinstance(uuid, str) or not uuid:
            raise EntryError(f"a uuid is a string that is not empty, not {uuid!r}")
        if uuid in (self._waiting or ()) or self._view.tree().row(uuid) != NO_ROW:
            raise EntryError(
                f"the uuid {uuid} is taken by another entry; leave it out to get a fresh one"
            )

    def _check_first_kept(self, uuid: str, leaf: Entry | None) -> None:
        if ancestry.nearest(self, lambda entry: entry.uuid == uuid, leaf) is None:
            raise RefError(
                f"the first kept entry {uuid} is not on the path that is compacted", uuid
            )

    def _draft(self, type: str, fields: Mapping[str, Any], parent: str, uuid: str) -> Entry:
        """An entry with its line, as it would be written now."""
        return self._draft_on(self._lane, type, fields, parent, uuid)

    def _draft_on(
        self, lane: str | None, type: str, fields: Mapping[str, Any], parent: str, uuid: str
    ) -> Entry:
        timestamp = now()
        spilled = fields.get("spilled", UNSET)
        entry = Entry(type, uuid, parent, lane, timestamp, _spilled=spilled)
        if spilled is not UNSET or type == "handle":
            with_fetch(entry, self._fetch)
        return stored(entry, encode_new(type, uuid, parent, lane, timestamp, fields), -1)

    def _spilled(self, wanted: Sequence[Wanted]) -> list[Wanted]:
        """The same with what is large in their fields put into blobs."""
        from sessiontree.core.spill import spill  # most entries are small

        over = self._spill_over
        return [(type, spill(fields, over, self._store), uuid) for type, fields, uuid in wanted]

    def _blobs_are_kept(self, entries: Sequence[Entry]) -> bool:
        blobs = [blob for entry in entries for blob in blobs_needed(entry.as_stored)]
        return all(self.blobs.has(blob) for blob in blobs)

    def _store(self, content: bytes, media_type: str) -> str:
        """Keep content in a blob; its handle's text form."""
        from sessiontree.core.handle import Handle

        self._check_file_is_there()
        return str(Handle.blob(*self.blobs.put(content), media_type))

    def _write(
        self,
        type: str,
        fields: Mapping[str, Any],
        above: Entry | None,
        *,
        uuid: str | None = None,
        seen: Entry | None = None,
    ) -> Entry:
        """Write an entry below another, by default the leaf, and stand at it.

        As `_write_run` does, in half of its time where it is plain: one entry after
        another, and nobody to be told.
        """
        if (
            self._hooks.registered
            or uuid is not None
            or self._waiting is not None
            or type in _OF_THE_PATH
        ):
            wanted = [(type, fields, uuid or fresh_uuid())]
            return self._write_run(wanted, above, "", uuid, seen=seen)
        with self._log.lock.alone():
            self._log.check_writable()
            entry = self._draft(type, fields, (above or self._leaf).uuid, fresh_uuid())
            if self._spill_over is None or len(entry.line) <= self._spill_over:
                self._put_at_once(entry)
                return entry
        return self._write_run([(type, fields, entry.uuid)], above, "")

    def _write_run(
        self,
        wanted: Sequence[Wanted],
        above: Entry | None,
        event: str,
        chosen: str | None = None,
        *,
        seen: Entry | None = None,
    ) -> Entry:
        """Write entries, each below the one before, all or none; stand at the last.

        Args:
            wanted: the type, fields and uuid of each.
            above: what the first hangs below, by default the leaf.
            event: the hooks to call beside those of appending.
            chosen: the uuid that the caller chose, which another writer may have taken.
            seen: the leaf whose path they speak of, by default the one now.
        """
        self._log.check_writable()
        seen = seen or self._leaf
        parent = above or self._leaf
        entries = self._drafts(wanted, parent.uuid)
        if self._hooks:
            for entry in entries:
                self._call_before(event, entry)
        over = self._spill_over
        whole: Sequence[Wanted] = ()
        if over is not None and any(len(entry.line) > over for entry in entries):
            whole, wanted = wanted, self._spilled(wanted)
            entries = self._drafts(wanted, parent.uuid)
        with self._holding():
            if whole and not self._blobs_are_kept(entries):  # gc, or a person, was faster
                wanted = self._spilled(whole)
            if above is None and self._leaf is not seen:  # a hook wrote, or another thread
                self._check_still_holds([type for type, _, _ in wanted], seen)
                entries = self._drafts(wanted, self._leaf.uuid)
            if chosen is not None:
                self._check_fresh(chosen)
            self._put(entries)
            for entry in entries:
                self._move(entry)
            self._tail = entries[-1].uuid
        if self._hooks:
            for entry in entries:
                self._call_after(event, entry)
        return entries[-1]

    def _check_still_holds(self, types: Sequence[str], seen: Entry) -> None:
        """Refuse what speaks of the path that was seen, where the leaf is not below it now."""
        speaking = next((type for type in types if type in _OF_THE_PATH), None)
        if speaking is not None and not ancestry.is_above(self, seen):
            raise UsageError(
                f"a hook, a summarizer, or another thread, moved to {self._leaf.uuid} while the "
                f"{speaking} was made for {seen.uuid}; nothing was written: do it again from there"
            )

    def _drafts(self, wanted: Sequence[Wanted], parent: str) -> list[Entry]:
        entries = []
        for type, fields, uuid in wanted:
            entries.append(self._draft(type, fields, parent, uuid))
            parent = uuid
        return entries

    def _annotate(self, type: str, fields: Mapping[str, Any], uuid: str | None = None) -> Entry:
        """Write an entry below its lane's leaf in the file, and stay where we are."""
        chosen, uuid = uuid, uuid or fresh_uuid()
        lane = self._lane_of_annotation(type, fields)
        if self._hooks:
            self._call_before("", self._draft_on(lane, type, fields, self._tail_of(lane), uuid))
        with self._holding():
            if chosen is not None:
                self._check_fresh(chosen)
            entry = self._draft_on(lane, type, fields, self._tail_of(lane), uuid)
            self._put([entry])
            if lane == self._lane:
                self._tail = entry.uuid
        if self._hooks:
            self._call_after("", entry)
        return entry

    def _lane_of_annotation(self, type: str, fields: Mapping[str, Any]) -> str | None:
        """The lane of a word for the whole file: main's where a trial's own would not last."""
        if type == "usage" or not is_scratch(self._lane):
            return self._lane
        target = self._by_uuid(fields["targetUuid"]) if type == "label" else None
        return self._lane if target is not None and target.lane == self._lane else None

    def _tail_of(self, lane: str | None) -> str:
        """The last entry of a lane in the file: this one's, or main's."""
        if lane == self._lane:
            return self._tail
        return (self._view.walk().last_on(lane) or self.header).uuid

    def _call_before(self, event: str, entry: Entry) -> None:
        if event:
            self._hooks.call(f"before_{event}", self, entry)
        self._hooks.call("before_append", self, entry)

    def _call_after(self, event: str, entry: Entry) -> None:
        self._hooks.call("after_append", self, entry)
        if event:
            self._hooks.call(f"after_{event}", self, entry)

    def _check_name_is_free(self, name: str, target: str = "") -> None:
        with self._log.lock.alone():
            tree = self._index()
            taken = self._all_names().named(name, tree) - {target}
            is_lane = refs.lane_leaf(name, tree) != NO_ROW
        if taken or is_lane:
            raise refs.taken(name, taken)
