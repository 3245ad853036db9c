"""EntryWriter: appends entries to the log, and moves the cursor to them.

Invariants: an entry is kept when the call returns it, except in a batch, which is written at
its end. A batch belongs to the task that opened it: what another task of the same thread appends
is kept when its call returns, with all that waits in the batch. The parent of an entry is the one
that the cursor last saw or wrote, whatever others wrote meanwhile. An annotation goes below the
lane's leaf in the log and does not move the cursor; one that a scratch lane makes about anything
but itself goes on main. A refused entry leaves the log unchanged. A writer that holds the log
knows all of it, or its append fails with `Moved`; then the entries are planned again (`commit`),
or, in `locked`, by the caller. A batch that cannot be written, or that was open when the process
forked, moves the cursor back to where it was.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain, takewhile
from time import time_ns
from typing import Any, Final, TypeVar

from msgspec import UNSET

from sessiontree.core.callback import BRIDGE
from sessiontree.core.codec import encode_new
from sessiontree.core.entry import (
    ANNOTATIONS,
    MAIN,
    REFERENCES,
    RESERVED,
    Entry,
    check_fields,
    check_type,
    moved,
    rehung,
    stored,
    with_fetch,
)
from sessiontree.core.garbage import is_scratch
from sessiontree.core.handle import blob_of, blobs_needed
from sessiontree.core.jsonbytes import Dumpable, plain
from sessiontree.core.message import Message, check_new_message
from sessiontree.engine import names
from sessiontree.engine.cursor import Cursor, Ref
from sessiontree.engine.hooks import Hooks
from sessiontree.engine.logtree import HeaderLine
from sessiontree.engine.reader import TreeReader
from sessiontree.errors import (
    BlobMissingError,
    EntryError,
    OvertakenError,
    RefError,
    SessionBusyError,
    UsageError,
)
from sessiontree.storage.log import Log, Moved

_PATH_BOUND: Final = frozenset({"compaction", "merge", "context_edit"})
"""Types that are valid only on the path they were made for."""

_ATTEMPTS: Final = 200
"""How often entries are planned for a log that moves although it is held."""

_AT_ONCE: Final = 3
_LONGEST_PAUSE: Final = 0.02
"""Attempts without a pause between them, and the longest pause in seconds between the others."""

T = TypeVar("T")

Draft = tuple[str, Mapping[str, Any], str]
"""An entry to write: its type, its fields and its uuid."""


def now() -> str:
    """Return the current time as the format writes it: UTC, milliseconds, `Z`."""
    return _timestamp(time_ns() // 1_000_000)


@lru_cache(maxsize=1)
def _timestamp(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_date_and_time(seconds)}.{rest:03d}Z"


@lru_cache(maxsize=1)
def _date_and_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


def fresh_uuid() -> str:
    """Make a random UUIDv4 (RFC 9562, 5.4)."""
    text = os.urandom(16).hex("-", 6)  # the first and last of its four dashes
    return f"{text[:13]}-4{text[14:17]}-{_VARIANTS[text[17]]}{text[18:]}"


_VARIANTS: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def current_task() -> object:
    """Return the task of asyncio or trio that calls; None outside of tasks.

    In the thread of an `AsyncSession`, this is the task that called the session.
    """
    if (bridge := BRIDGE.get()) is not None:
        return bridge.task
    for library in map(sys.modules.get, ("asyncio", "trio.lowlevel")):
        with contextlib.suppress(RuntimeError):  # no loop runs in this thread
            if library is not None and (task := library.current_task()) is not None:
                return task
    return None


def _plain_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an entry as JSON values, without a `metadata` of None."""
    made = {key: plain(value) for key, value in fields.items()}
    if made.get("metadata", made) is None:
        del made["metadata"]
    return made


class EntryWriter:
    """Appends entries at a cursor.

    Attributes:
        cursor: the place to write at; it moves to each new entry.
        reader: the cursor's reader.
        hooks: called with each entry.
        spill_over: strings with more bytes go into blobs; None: none does.
        tail: the uuid of the last known entry of the lane, annotations included.
    """

    def __init__(self, cursor: Cursor, hooks: Iterable[Any], spill_over: int | None) -> None:
        self.cursor = cursor
        self.reader = cursor.reader
        self.hooks = Hooks(hooks)
        self.spill_over = spill_over
        self.tail = cursor.leaf.uuid
        self._is_locked = False  # in a block of `locked`, of a log that keeps no program out
        self._moved_to: Entry | None = None
        self._elsewhere: Entry | None = None
        self._batch: dict[str, Entry] | None = None
        self._batch_process = -1
        self._batch_task: object = None
        self._before_batch = cursor.leaf, self.tail
        self.reader.flush = self._flush_alone
        self.reader.catch_up = self.catch_up

    @classmethod
    def of(
        cls,
        log: Log,
        lane: str,
        hooks: Iterable[Any],
        spill_over: int | None,
        header_line: HeaderLine | None = None,
    ) -> EntryWriter:
        """Make a writer at the leaf of a lane of an open log."""
        cursor = Cursor(TreeReader(log, header_line), None if lane == MAIN else lane)
        return cls(cursor, hooks, spill_over)

    @property
    def log(self) -> Log:
        """The log to write to."""
        return self.reader.log

    def append(
        self,
        type: str,
        fields: dict[str, Any],
        *,
        parent: Ref | None = None,
        uuid: str | None = None,
    ) -> Entry:
        """Write one entry; see `Session.append`."""
        self.log.check_writable()
        self._is_batching()  # first drops a batch that the parent process opened
        seen = self.cursor.leaf
        check_type(type)
        fields = _plain_fields(fields)
        check_fields(type, fields)
        if type in REFERENCES or type == "branch":
            self._check_references(type, fields)
            self._check_name(type, fields)
        if uuid is not None:
            self._check_fresh(uuid)
        if type in ANNOTATIONS:
            if parent is not None:
                raise EntryError(f"a {type} goes below the lane's leaf; leave 'parent' out")
            return self.annotate(type, fields, uuid)
        above = None if parent is None else self.cursor.entry(parent)
        if type == "compaction" and fields["firstKeptEntryUuid"] != uuid:
            self._check_first_kept(fields["firstKeptEntryUuid"], above)
        if type == "handle":
            with self._keeping_blob(fields["handle"]):
                return self.write(type, fields, above, uuid=uuid)
        return self.write(type, fields, above, uuid=uuid, seen=seen)

    def append_all(
        self, given: Iterable[tuple[str, Mapping[str, Any]]], parent: Entry | None = None
    ) -> Entry:
        """Write entries with one write, each below the one before; none if one is refused.

        Args:
            given: the type and the fields of each; types whose entries go below the leaf only.
            parent: what the first goes below, by default the leaf.

        Raises:
            EntryError: as for `append`.
        """
        drafts: list[Draft] = []
        for type, fields in given:
            check_type(type)
            made = _plain_fields(fields)
            check_fields(type, made)
            drafts.append((type, made, fresh_uuid()))
        return self.write_run(drafts, parent, "")

    def append_message(
        self, message: Message | Dumpable, parent: Ref | None, metadata: Mapping[str, Any] | None
    ) -> Entry:
        """Write one message; see `Session.append_message`."""
        if not isinstance(message, dict):
            message = plain(message)
        if metadata is not None or self._batch is not None:
            fields: dict[str, Any] = {"message": message}
            if metadata is not None:
                fields["metadata"] = metadata
            return self.append("message", fields, parent=parent)
        check_new_message(message)
        above = None if parent is None else self.cursor.entry(parent)
        return self.write("message", {"message": message}, above)

    def write(
        self,
        type: str,
        fields: Mapping[str, Any],
        above: Entry | None,
        *,
        uuid: str | None = None,
        seen: Entry | None = None,
    ) -> Entry:
        """Write an entry below another, by default the leaf, and go to it."""
        if (
            self.hooks.registered
            or uuid is not None
            or self._batch is not None
            or type in _PATH_BOUND
            or type == "handle"
            or "spilled" in fields
        ):
            drafts = [(type, fields, uuid or fresh_uuid())]
            return self.write_run(drafts, above, "", uuid, seen=seen)
        return self._write_now(type, fields, fresh_uuid(), above)

    def _write_now(
        self, type: str, fields: Mapping[str, Any], uuid: str, above: Entry | None
    ) -> Entry:
        """Write an entry without a plan, in half the time of `write_run`.

        An entry that must spill, or before which another writer was faster, is planned.
        """
        reader, cursor = self.reader, self.cursor
        with reader.log.alone():
            parent = (cursor.leaf if above is None else above).uuid
            timestamp, lane = now(), cursor.lane
            line = encode_new(type, uuid, parent, lane, timestamp, fields)
            if self.spill_over is not None and len(line) > self.spill_over:
                return self.write_run([(type, fields, uuid)], above, "")
            entry = stored(Entry(type, uuid, parent, lane, timestamp), line, -1)
            try:
                self._written([entry], reader.log.append(line + b"\n", reader.view.size))
            except Moved:
                if self._is_locked:
                    raise
                with reader.log.hold():
                    self.catch_up()
                    self._write_planned(lambda: [entry])
            cursor.move(entry)
            self.tail = uuid
            return entry

    def write_run(
        self,
        drafts: Sequence[Draft],
        above: Entry | None,
        event: str,
        chosen: str | None = None,
        *,
        seen: Entry | None = None,
        again: Callable[[], Sequence[Draft]] | None = None,
    ) -> Entry:
        """Write entries, each below the one before, all or none; go to the last.

        Args:
            drafts: the type, fields and uuid of each.
            above: what the first hangs below, by default the leaf.
            event: the hooks to call beside those of appending.
            chosen: the uuid that the caller chose, which another writer may have used.
            seen: the leaf for which the entries were made, by default the current one.
            again: makes the entries again, if the leaf is another one at the time of the write.
        """
        self.log.check_writable()
        seen = seen or self.cursor.leaf
        parent = above or self.cursor.leaf
        entries = self._run(drafts, parent.uuid)
        if self.hooks:
            for entry in entries:
                self.call_before(event, entry)
        over = self.spill_over
        whole: Sequence[Draft] = ()
        if over is not None and any(len(entry.line) > over for entry in entries):
            whole, drafts = drafts, self._spilled(drafts)
            entries = self._run(drafts, parent.uuid)
        size = self.reader.view.size

        def plan() -> list[Entry]:
            nonlocal drafts, entries
            self._check_is_free(drafts, chosen, size)
            if whole and not self._blobs_are_kept(entries):  # gc, or a person, removed one
                drafts = self._spilled(whole)
            if above is None and self.cursor.leaf is not seen:  # a hook or another thread wrote
                self._check_still_holds([type for type, _, _ in drafts], seen)
                if again is not None:
                    drafts = self._spilled(again()) if whole else again()
                entries = self._run(drafts, self.cursor.leaf.uuid)
            return entries

        return self.commit(plan, event)[-1]

    def write_lines(self, lines: Sequence[bytes]) -> None:
        """Write entries that were made elsewhere, as lines without LF, in one write; go to the tip.

        The caller holds the lock. It knows that their uuids are free, that each parent is in the
        log or above them, and that their blobs are stored. No hook is called.
        """
        with self.holding():
            block = b"\n".join([*lines, b""])
            offset = self.log.append(block, self.reader.view.size)
            self.reader.view.appended(offset + len(block))
            self.go_to_tip()
            self.tail = self.cursor.leaf.uuid

    def annotate(self, type: str, fields: Mapping[str, Any], uuid: str | None = None) -> Entry:
        """Write an entry below its lane's leaf in the log, and stay at the cursor's leaf."""
        own = uuid or fresh_uuid()
        lane = self._lane_of_annotation(type, fields)
        size = self.reader.view.size

        def plan() -> list[Entry]:
            self._check_is_free([(type, fields, own)], uuid, size)
            return [self._draft_on(lane, type, fields, self._tail_of(lane), own)]

        if self.hooks:
            self.call_before("", self._draft_on(lane, type, fields, self._tail_of(lane), own))
            size = self.reader.view.size
        (entry,) = self.commit(plan)
        return entry

    def _lane_of_annotation(self, type: str, fields: Mapping[str, Any]) -> str | None:
        """Return the lane of an annotation: main, if it must outlive this scratch lane."""
        lane = self.cursor.lane
        if type == "usage" or not is_scratch(lane):
            return lane
        target = self.cursor.by_uuid(fields["targetUuid"]) if type == "label" else None
        return lane if target is not None and target.lane == lane else None

    def _tail_of(self, lane: str | None) -> str:
        """Return the last entry of a lane in the log: of the cursor's, or of main."""
        if lane == self.cursor.lane:
            return self.tail
        return (self.reader.view.walk().last_on(lane) or self.reader.header).uuid

    def draft(self, type: str, fields: Mapping[str, Any], parent: str, uuid: str) -> Entry:
        """Make an entry with its line, as it would be written now."""
        return self._draft_on(self.cursor.lane, type, fields, parent, uuid)

    def _draft_on(
        self, lane: str | None, type: str, fields: Mapping[str, Any], parent: str, uuid: str
    ) -> Entry:
        timestamp = now()
        spilled = fields.get("spilled", UNSET)
        entry = Entry(type, uuid, parent, lane, timestamp, spilled_value=spilled)
        if spilled is not UNSET or type == "handle":
            with_fetch(entry, self.reader.fetch)
        return stored(entry, encode_new(type, uuid, parent, lane, timestamp, fields), -1)

    def _run(self, drafts: Sequence[Draft], parent: str) -> list[Entry]:
        entries = []
        for type, fields, uuid in drafts:
            entries.append(self.draft(type, fields, parent, uuid))
            parent = uuid
        return entries

    def _check_references(self, type: str, fields: Mapping[str, Any]) -> None:
        for key in REFERENCES.get(type, ()):
            if key not in fields:  # it is optional
                continue
            uuid = fields[key]
            if (type, key) == ("compaction", "firstKeptEntryUuid"):
                continue  # its own uuid keeps nothing; checked against the path
            if self.cursor.by_uuid(uuid) is None:
                raise RefError(f"{key!r} of the {type} is not the uuid of an entry: {uuid}", uuid)

    def _check_name(self, type: str, fields: Mapping[str, Any]) -> None:
        """Refuse a name that a ref cannot spell, or that means another entry."""
        if type == "branch" and fields.get("name") is not None:
            name = names.check_name(fields["name"], "branch name")
            self.reader.check_name_is_free(name)
        elif type == "label" and fields["label"] is not None:
            name = names.check_new_name(fields["label"], names.LABEL)
            self.reader.check_name_is_free(name, fields["targetUuid"])

    def _check_is_free(self, drafts: Sequence[Draft], chosen: str | None, size: int) -> None:
        """Refuse a uuid or a name that another writer took since the log had a size."""
        if chosen is not None:
            self._check_fresh(chosen)
        if self.reader.view.size != size:
            for type, fields, _ in drafts:
                self._check_name(type, fields)

    def _check_fresh(self, uuid: str) -> None:
        if not isinstance(uuid, str) or not uuid:
            raise EntryError(f"a uuid is a string that is not empty, not {uuid!r}")
        if self.reader.has_uuid(uuid):
            raise EntryError(
                f"the uuid {uuid} is taken by another entry; leave it out to get a fresh one"
            )

    def _check_first_kept(self, uuid: str, leaf: Entry | None) -> None:
        if self.cursor.nearest(lambda entry: entry.uuid == uuid, leaf) is None:
            raise RefError(f"the first kept entry {uuid} is not on the compacted path", uuid)

    def _check_still_holds(self, types: Sequence[str], seen: Entry) -> None:
        """Refuse a type that is bound to the path to `seen`, if the leaf is not below that now."""
        bound = next((type for type in types if type in _PATH_BOUND), None)
        if bound is not None and not self.cursor.is_above(seen):
            raise UsageError(
                f"a hook, a summarizer or another thread moved to {self.cursor.leaf.uuid} while "
                f"the {bound} was made for {seen.uuid}; nothing was written: call it again"
            )

    @contextlib.contextmanager
    def _keeping_blob(self, handle: Any) -> Iterator[None]:
        """Keep the blob of a handle from gc until the handle is written.

        Raises:
            BlobError: the blob is missing or damaged.
        """
        blob = blob_of(handle)
        if blob is None:
            yield
            return
        blobs = self.reader.blobs
        blobs.confirm(blob)
        with self.holding():
            if not blobs.has(blob):
                raise BlobMissingError(
                    f"blob {blob.sha256} was removed while its handle was appended; store it "
                    "and append the handle again",
                    blobs.file,
                    blob.sha256,
                )
            yield

    def _spilled(self, drafts: Sequence[Draft]) -> list[Draft]:
        """Return the drafts with large strings moved into blobs."""
        from sessiontree.core.spill import spill  # most entries are small

        over = self.spill_over
        return [(type, spill(fields, over, self._store), uuid) for type, fields, uuid in drafts]

    def _blobs_are_kept(self, entries: Sequence[Entry]) -> bool:
        blobs = [blob for entry in entries for blob in blobs_needed(entry.as_stored)]
        return all(self.reader.blobs.has(blob) for blob in blobs)

    def _store(self, content: bytes, media_type: str) -> str:
        """Keep content in a blob; return the text form of its handle."""
        from sessiontree.core.handle import Handle

        self.check_log_is_there()
        return str(Handle.blob(*self.reader.blobs.put(content), media_type))

    def check_log_is_there(self) -> None:
        """Check that the file was not moved away, before a blob makes a folder at its path.

        Raises:
            SessionNotFoundError: the file vanished.
        """
        self.log.was_replaced()

    def call_before(self, event: str, entry: Entry) -> None:
        """Call the hooks before an entry is written; a hook may refuse it."""
        if event:
            self.hooks.call(f"before_{event}", entry)
        self.hooks.call("before_append", entry)

    def call_after(self, event: str, entry: Entry) -> None:
        """Call the hooks after an entry was written."""
        self.hooks.call("after_append", entry)
        if event:
            self.hooks.call(f"after_{event}", entry)

    @contextlib.contextmanager
    def holding(self, *, newest: bool = False) -> Iterator[None]:
        """Hold the log, and read what others wrote.

        A log that keeps no other program out is only looked at with `newest`; without it, the
        append tells whether others wrote.
        """
        moved_to = None
        # `gc` of another thread may replace the log while this thread waits to be alone.
        with self.log.alone(), self.log.hold():
            is_looking = newest and not self.log.keeps_out
            ends_at = self.log.ends_at if is_looking else self.log.still_ends_at
            if not self._is_batching() and not ends_at(self.reader.view.size):
                self.catch_up()
            moved_to, self._moved_to = self._moved_to, None
            yield
        if moved_to is not None:
            self.hooks.call("on_conflict", moved_to)

    @contextlib.contextmanager
    def at_tip(self) -> Iterator[None]:
        """Hold the log, at the newest leaf of the lane, for what may be written below any leaf."""
        with self.holding(newest=True):
            self.go_to_tip()
            yield

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """See `Session.locked`."""
        outer = self._is_locked
        with self.at_tip():
            self._is_locked = not self.log.keeps_out
            try:
                yield
            except Moved:
                raise OvertakenError(
                    f"{self.log.name}: another program wrote to the session after this block had "
                    "read it, and the rest of the block was not written; run the block again",
                    self.log.name,
                ) from None
            finally:
                self._is_locked = outer

    def commit(self, plan: Callable[[], list[Entry]], event: str = "") -> list[Entry]:
        """Write the entries of a plan, or keep them for the end of the batch, and go to the last.

        The plan is made when the log is held, and again each time that another writer was faster.
        Annotations do not move the cursor. The hooks after the write are called.

        Raises:
            Moved: another writer was faster, in `locked`, whose block made the plan.
            SessionBusyError: others were faster each time.
        """
        with self.holding():
            entries = self._planned(plan)
            for entry in entries:
                if entry.type not in ANNOTATIONS:
                    self.cursor.move(entry)
                if entry.lane == self.cursor.lane:
                    self.tail = entry.uuid
        if self.hooks:
            for entry in entries:
                self.call_after(event, entry)
        return entries

    def _planned(self, plan: Callable[[], list[Entry]]) -> list[Entry]:
        if self._batch is None or self._batch_task is not current_task():
            self.flush()  # in the order of the calls
            return self._write_planned(plan)
        if not self._batch:
            self._before_batch = self.cursor.leaf, self.tail
        entries = plan()
        self._batch.update((entry.uuid, entry) for entry in entries)
        return entries

    def _write_planned(self, plan: Callable[[], list[Entry]]) -> list[Entry]:
        """Append the entries of a plan, made again each time that the log moved.

        A log that is held moves where no lock keeps others out, as in a bucket, or the connection
        to the server that did was lost; and a file of version 1 moves when it is migrated now.
        """
        entries: list[Entry] = []

        def write() -> int:
            nonlocal entries
            entries = plan()
            block = b"\n".join([*(entry.line for entry in entries), b""])
            return self.log.append(block, self.reader.view.size)

        offset = self._again(write)
        self._written(entries, offset)
        return entries

    def rewrite(self, do: Callable[[Log], T]) -> T:
        """Hold the log at its end and do what may rewrite it; planned again like an append.

        Raises:
            Moved, SessionBusyError: as for `commit`.
        """
        with self.holding(newest=True):
            done = self._again(lambda: do(self.log))
            self.reader.catch_up()
        return done

    def _again(self, write: Callable[[], T]) -> T:
        for attempt in range(_ATTEMPTS):
            try:
                return write()
            except Moved:
                if self._is_locked:
                    raise
            if attempt > _AT_ONCE:  # many writers lost their locks at the same moment
                time.sleep(os.urandom(1)[0] / 255 * _LONGEST_PAUSE)
            self.catch_up()
        raise SessionBusyError(
            f"{self.log.name}: other writers were faster {_ATTEMPTS} times, and nothing was "
            "written; try again",
            self.log.name,
        )

    def _written(self, entries: Sequence[Entry], offset: int) -> None:
        """Note where entries were written, and what came just before them."""
        view = self.reader.view
        if offset > view.size + 1 and view.reads_to_end:  # a program without the lock wrote
            self.catch_up(offset)
        for entry in entries:
            moved(entry, offset)
            offset += len(entry.line) + 1
        view.appended(offset)

    def catch_up(self, until: int | None = None) -> None:
        """Read what others wrote, up to an offset, and note where they moved this lane's leaf."""
        before, tail = self.reader.view, self.tail
        moved_to = None
        for head in self.cursor.catch_up(until):
            if head.lane == self.cursor.lane:
                self.tail = head.uuid
                if head.type not in ANNOTATIONS:
                    moved_to = head
        if self.reader.view is not before:
            leaf = self.cursor.leaf_in_log()
            self.tail = leaf.uuid
            moved_to = self._added_since(tail, leaf)
        if moved_to is not None:
            self._moved_to = self._elsewhere = self.reader.view.read(moved_to.offset)

    def _added_since(self, tail: str, leaf: Entry) -> Entry | None:
        """Return the lane's last entry, without annotations, if it came after its known tail."""
        known = (tail, self.cursor.leaf.uuid)
        for entry in chain((leaf,), self.reader.view.walk().up(leaf)):
            if entry.uuid in known or entry.lane != self.cursor.lane:
                return None
            if entry.type not in ANNOTATIONS:
                return entry
        return None

    @property
    def conflict(self) -> Entry | None:
        """See `Session.conflict`."""
        with self.log.alone():
            other = self._elsewhere
            if other is not None and self._has_on_path(other):
                self._elsewhere = None
            return self._elsewhere

    def _has_on_path(self, other: Entry) -> bool:
        """Whether an entry is at or above the leaf, or merged there."""
        later = takewhile(lambda entry: entry.offset >= other.offset, self.cursor.up())
        return any(
            entry.uuid == other.uuid
            or (entry.type == "merge" and entry.get("mergedUuid") == other.uuid)
            for entry in later
        )

    def refresh(self) -> None:
        """Read what others wrote, and stay at the leaf; see `Session.refresh`."""
        with self.log.alone():
            if self._is_batching():
                return
            self.catch_up()
            moved_to, self._moved_to = self._moved_to, None
        if moved_to is not None:
            self.hooks.call("on_conflict", moved_to)

    def go_to_tip(self) -> None:
        """Go to the lane's leaf in the log."""
        self.cursor.move(self.cursor.leaf_in_log())

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """See `Session.batch`."""
        with self.holding():
            if self._batch is not None:  # of this thread; `holding` waits for others
                if self._batch_task is not current_task():
                    raise UsageError(
                        "another task of this thread has a batch open; open one after it, or "
                        "append without a batch"
                    )
                raise UsageError("a batch is open already; append inside it")
            self._batch = self.reader.pending = {}
            self._batch_process = os.getpid()
            self._batch_task = current_task()
            try:
                yield
            finally:
                try:
                    self.flush()
                finally:
                    self._end_batch()

    def _end_batch(self) -> None:
        self._batch, self.reader.pending = None, {}
        self._batch_task = None

    def _is_batching(self) -> bool:
        """Whether a batch is open.

        A batch that was open when this process was forked is dropped: the parent process writes it.
        """
        if self._batch is not None and self._batch_process != os.getpid():
            if self._batch:
                self._undo_batch()
            self._end_batch()
        return self._batch is not None

    def _undo_batch(self) -> None:
        leaf, self.tail = self._before_batch
        self.cursor.reset(leaf)

    def flush(self) -> None:
        """Write the entries of an open batch."""
        if not self._is_batching() or not self._batch:
            return
        waiting = list(self._batch.values())
        self._batch = self.reader.pending = {}
        before, tail = self._before_batch[1], self.tail
        try:
            if not self.log.ends_at(self.reader.view.size):
                self.catch_up()  # a lane of this process wrote, under the same lock
            self._write_planned(lambda: self._below_tail(waiting, before, tail))
            self.tail = tail
        except BaseException:
            self._undo_batch()  # its entries are not in the log
            raise

    def _below_tail(self, waiting: list[Entry], before: str, last: str) -> list[Entry]:
        """Hang the annotations of a batch below the lane's tail, if that is another one by now."""
        if self.tail not in (before, last):
            for entry in waiting:
                if entry.type in ANNOTATIONS and entry.parent_uuid == before:
                    fields = {k: v for k, v in entry.as_stored.items() if k not in RESERVED}
                    again = self._draft_on(entry.lane, entry.type, fields, self.tail, entry.uuid)
                    rehung(entry, again)
        return waiting

    def _flush_alone(self) -> None:
        with self.log.alone():  # wait for another thread's batch
            self.flush()

    def close(self) -> None:
        """Write the entries of an open batch, close the log, and forget what was read of it."""
        with self.log.alone():
            try:
                if not self.log.closed:
                    self.flush()
            finally:
                self.log.close()
                self.cursor.forget()
