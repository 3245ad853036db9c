"""The entries of another agent's file, or of one of version 1, line by line.

Opening such a file translates all of it. A search translates a line that may match, or a
message of a document, by itself, as long as the lines around it change nothing but the
parent of its entry; otherwise it translates the whole file.

Invariant: entries have the uuids, lanes and texts that the opened file gives them; except
that a uuid that a later line repeats is given to both, and that messages behind damage
within a document are found as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import cached_property, partial
from itertools import islice
from typing import Final

import msgspec
import stringzilla  # type: ignore[import-not-found, unused-ignore]
from msgspec.structs import replace

from sessiontree.agents.base import AgentSource, LinePlace, PartOfSource, Reader
from sessiontree.agents.codex.names import rollout_of
from sessiontree.core.codec import decode
from sessiontree.core.damage import ignore
from sessiontree.core.entry import Entry, decode_object, lane_of_subagent
from sessiontree.core.migrate import migrate, migrate_alone, uuid_of_line
from sessiontree.engine.logtree import LogTree
from sessiontree.engine.opening import FileStart
from sessiontree.engine.translated import SourceFile, agent_files, history_files, sidecar_of
from sessiontree.storage.fs import DISK
from sessiontree.storage.lines import (
    MAGIC,
    Decompressed,
    Positioned,
    Read,
    count_newlines,
    rest_of_line,
    whole_lines,
)
from sessiontree.storage.log import Log
from sessiontree.storage.names import Report
from sessiontree.storage.places import open_log
from sessiontree.storage.scanner import DecompressedFile, Find, Scanner


class ForeignFile:
    """A file of another agent, or of version 1, as a search reads it.

    `inside` is its decompressed content, if it is being scanned; `files` are its path and
    those of the files beside it that belong to it.
    """

    def __init__(
        self, file: str, start: FileStart, report: Report, inside: DecompressedFile | None = None
    ) -> None:
        self.files = [file]
        self._inside = inside
        self._reader = None if start.agent is None else start.agent.reader
        self._id = start.id_in_lines
        self._counted: dict[int, tuple[int, int]] = {}
        self._opening = start.head.lstrip(b"\0\r\n\t ").partition(b"\n")[0]
        if self._reader is not None:
            self.files += agent_files(file, report) if self._reader.has_subagents else ()
            if not self._reader.needs_opening:
                self._opening = b""

    @cached_property
    def _log(self) -> Log:
        """The file, opened when something needs more than the lines that a scan gives."""
        return open_log(DISK, self.files[0], readonly=True)

    @cached_property
    def _content(self) -> Positioned:
        is_compressed = self._log.read(0, len(MAGIC)) == MAGIC
        return Decompressed(self._log) if is_compressed else self._log

    def close(self) -> None:
        if "_log" in self.__dict__:
            self._log.release()

    def entry(self, reader: Reader, number: int, offset: int, line: bytes) -> Entry | None:
        """The entry of a line of file `number`; None if it depends on other lines, or is none."""
        body = decode_object(line)
        if not body or not reader.stands_alone(body, number > 0):
            return None
        opening = [(0, self._opening)] if self._opening not in (b"", line) else []
        lines = [*opening, (len(self._opening) + 1, line)]
        alone = PartOfSource(os.path.basename(self.files[number]), lines)
        for draft in reader.translate(alone, _unreported):
            if draft.line.place.offset >= lines[-1][0] and not draft.is_made:
                found = decode(draft.encoded(), offset, ignore)
                lane = lane_of_subagent(_agent(self.files[number])) if number else None
                return replace(found, lane=lane or found.lane) if found is not None else None
        return None

    def matching(self, find: Find, lines: Iterable[tuple[int, bytes]]) -> Iterator[Entry]:
        """The entries, as the opened file has them, whose lines may match; some twice.

        `find` finds such lines; `lines` are those of the file itself, with their offsets.
        """
        for entry in self._one_by_one(find, lines):
            if entry is None:
                yield from self._all(find)
                return
            yield entry

    def _one_by_one(self, find: Find, lines: Iterable[tuple[int, bytes]]) -> Iterator[Entry | None]:
        """The entries, each translated alone; None, once and last, if one depends on others."""
        reader = self._reader
        if reader is None:
            return self._of_version_1(lines)
        if self._has_history():
            return iter((None,))
        if reader.is_of_lines:
            return self._of_lines(reader, find, lines)
        if len(self.files) > 1:
            return iter((None,))
        return (None for _ in islice(lines, 1))  # a message may depend on any other

    def _has_history(self) -> bool:
        """True if this is a segment of Codex that continues another, so that its uuids differ."""
        rollout = rollout_of(self.files[0])
        if rollout is None:
            return False
        return rollout.segment != rollout.thread or bool(history_files(rollout.path))

    def _of_lines(
        self, reader: Reader, find: Find, lines: Iterable[tuple[int, bytes]]
    ) -> Iterator[Entry | None]:
        left = 5000  # the whole file costs less than more lines, each translated alone
        for number, file in enumerate(self.files):
            if number and names_match(file, find):
                yield None
            for offset, line in Scanner().lines(file, find) if number else lines:
                left -= 1
                if not left:
                    yield None
                entry = self.entry(reader, number, offset, line)
                if entry is not None:
                    uuid = self._uuid(entry, number, offset, line)
                    entry = entry if entry.uuid == uuid else replace(entry, uuid=uuid)
                    if len(self.files) > 1 and self._may_be_caller(line, find):
                        entry = None
                yield entry

    def _may_be_caller(self, line: bytes, find: Find) -> bool:
        """True if a uuid in a line may match; a subagent's entries name that of its caller."""
        body = decode_object(line)
        names = ("uuid", "parentUuid", "sourceToolAssistantUUID")
        return any(_is_in(str(body.get(name)).encode("utf-8", "replace"), find) for name in names)

    def _of_version_1(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[Entry | None]:
        session_id = str(decode_object(rest_of_line(self._log.read, 0)).get("id", ""))
        position = counted = 0
        for offset, line in lines:
            between = objects_in(self._log.read, counted, offset)
            if between is None:
                yield None
                return
            position += between
            counted = offset
            made = migrate_alone(line, position, session_id)
            yield decode(made, offset, ignore) if made is not None else None

    def _uuid(self, entry: Entry, number: int, offset: int, line: bytes) -> str:
        """The uuid that the opened file gives an entry: its line's own, or one made of that."""
        is_header = bool(self._opening) and not (offset or number)
        if is_header or entry.uuid.encode("utf-8", "replace") in line:
            return entry.uuid
        place = self._line_number(number, offset) + (number << 40)
        return uuid_of_line(self._id, place, line)

    def _line_number(self, number: int, offset: int) -> int:
        if self._inside is not None and not number:
            return self._inside.number
        start, lines = self._counted.get(number, (0, 1))
        if start > offset:
            start, lines = 0, 1
        if not number:
            lines += count_newlines(self._content.read, start, offset)
        else:
            with closing(open_log(DISK, self.files[number], readonly=True)) as log:
                lines += count_newlines(log.read, start, offset)
        self._counted[number] = offset, lines
        return lines

    def _all(self, find: Find) -> Iterator[Entry]:
        """The entries whose lines may match, of the whole file translated."""
        for line in self._translated(find):
            is_likely = next(find(line, len(line)), None) is not None
            entry = decode(line, 0, ignore) if is_likely else None
            if entry is not None:
                yield entry

    def _translated(self, find: Find) -> Iterator[bytes]:
        """The file as lines of version 2, without messages that cannot match."""
        if self._reader is None:
            yield from migrate((line for _, line in LogTree(self._log).lines()), 1)
            return
        source = SourceFile(self._log)
        narrowed: AgentSource = source
        if len(self.files) == 1:
            narrowed = self._reader.narrowed(source, partial(_is_in, find=find))
        for draft in self._reader.translate(narrowed, _unreported):
            yield draft.encoded()
        for beside in source.opened:
            beside.close()


def objects_in(read: Read, start: int, end: int) -> int | None:
    """How many lines are between two offsets, if each is one JSON object; else None.

    A line that begins and ends with a brace holds one object or more, and none continues in
    the next line, because no JSON has `}` before `{`. So there are as many objects as lines
    only if each line is one.
    """
    count = 0
    for _, block in whole_lines(read, start, end):
        lines: int = stringzilla.count(block, b"\n")
        begun = block.startswith(b"{") + stringzilla.count(block, b"\n{")
        if not lines == begun == stringzilla.count(block, b"}\n"):
            return None
        try:
            objects = len(_decode_objects(block))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if objects != lines:
            return None
        count += lines
    return count


class _Object(msgspec.Struct, gc=False):
    """Any object; its values are skipped."""


_decode_objects: Final = msgspec.json.Decoder(_Object).decode_lines


def names_match(file: str, find: Find) -> bool:
    """True if the name of a subagent's transcript, or its file of facts, may match."""
    return _is_in(sidecar_of(file) or b"", find) or _is_in(
        _agent(file).encode("utf-8", "replace"), find
    )


def _is_in(content: bytes, find: Find) -> bool:
    """True if content that an entry may be made of may match."""
    return next(find(content.replace(b"\n", b" "), len(content)), None) is not None


def _agent(file: str) -> str:
    return os.path.basename(file).removeprefix("agent-").removesuffix(".jsonl")


def _unreported(kind: str, place: LinePlace, cause: str) -> None:
    """Opening the file reports it."""
