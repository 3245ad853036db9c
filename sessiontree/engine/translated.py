"""Another agent's file, opened to read: its lines as ours, in memory.

Invariants: the file, and what lies beside it, is read and never written; a line of
it is found again by the entry made of it, and is not kept a second time; damage is
told at the places of the original.
"""

from __future__ import annotations

import contextlib
import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from sessiontree.core.codec import lines_in
from sessiontree.core.damage import Damage
from sessiontree.core.entry import Entry, decode_leniently
from sessiontree.errors import ForeignFormatError, SessionTreeError
from sessiontree.formats import HEAD, Format, recognise
from sessiontree.formats.base import Place, Source, whole_value
from sessiontree.storage.atomic import create_file
from sessiontree.storage.files import SUBAGENTS, own_folder
from sessiontree.storage.fs import DISK, READ, FileSystem, Memory
from sessiontree.storage.lines import rest_of_line, whole_lines
from sessiontree.storage.log import FileLog
from sessiontree.storage.zstd import MAGIC, Decompressed


class Translated:
    """A file of another format: its lines as version 2, in memory.

    Attributes:
        original: the file itself, open.
        format: its format.
        log: the lines of ours.
        size: the bytes of the file that are in them.
        ends_by_rule: whether its leaf may be an entry that no line stands for.
    """

    ends_by_rule = True

    def __init__(self, original: FileLog, format: Format) -> None:
        self.original = original
        self.format = format
        self._sources = [SourceFile(original)]
        self.size = original.size()
        self._damage: list[Damage] = []
        self._starts = array("q")
        self._places = (array("l"), array("q"), array("q"))
        memory = Memory()
        create_file(memory, original.path, self._blocks())
        self.log = FileLog(memory, original.path, readonly=True, durability="os")
        self.log.ended = (
            f"a file of {format.program} is read in place and never written; import it to go on "
            f"with it ('sessiontree import {original.path}')"
        )

    def _blocks(self) -> Iterator[bytes]:
        start = 0
        for place, line in self.format.translate(self._sources[0], self._report):
            self._starts.append(start)
            for column, value in zip(self._places, place, strict=True):
                column.append(value)
            start += len(line) + 1
            yield line + b"\n"
        for source in self._sources[0].opened:
            source.close()

    def _file(self, source: int) -> str:
        return self._source(source).path

    def _source(self, number: int) -> SourceFile:
        return self._sources[0].opened[number - 1] if number else self._sources[0]

    def _report(self, kind: str, place: Place, cause: str) -> None:
        file = self._file(place.source)
        self._damage.append(Damage(file, place.number, place.offset, kind, cause))

    def _place(self, offset: int) -> Place:
        """Where the line stands of which the line of ours at an offset was made."""
        row = max(bisect_right(self._starts, offset) - 1, 0)
        return Place(*(column[row] for column in self._places))

    def in_original(self, damage: Sequence[Damage]) -> list[Damage]:
        """What was met in the lines of ours and in the original, at the original's places."""
        found = [*self._damage, *damage_of(self._sources[0], self._damage)]
        for each in damage:
            if each.kind == "utf-8":
                continue  # the source told it, and where in its own line
            place = self._place(each.offset)
            file = self._file(place.source)
            found.append(replace(each, file=file, line=place.number, offset=place.offset))
        return sorted(found, key=lambda each: (each.file, each.offset))

    def line_of(self, entry: Entry) -> bytes:
        """The line that an entry was made of; of a document that is one value, the part of it.

        Raises:
            StorageError: the file cannot be read any more.
        """
        place = self._place(entry.offset)
        return self._source(place.source).value_at(place.offset)

    def is_outdated(self) -> bool:
        """Whether the original has changed since, or another file stands in its place."""
        return self.original.was_replaced() or self.original.size() != self.size


def recognised(log: FileLog) -> Format | None:
    """The format of another agent that a file has, by its content; None for any other."""
    head = log.read(0, HEAD)
    if head.startswith(MAGIC):
        head = Decompressed(log).head(HEAD)
    return recognise(head)


def refusal(log: FileLog, format: Format) -> ForeignFormatError:
    """The error for one who would write to a file of another format."""
    return ForeignFormatError(
        f"{log.path} is a file of {format.program}, which is read in place and never written: "
        "open it with readonly=True to look at it, or import it to go on with it "
        f"('sessiontree import {log.path}')",
        log.path,
        format.program,
    )


class SourceFile:
    """A file as a format reads it, compressed or not; implements `Source`.

    Attributes:
        path: its path.
        opened: those beside it that were asked for.
        passed: told of the bytes of each line that is read, where somebody is to be told.
    """

    def __init__(self, log: FileLog, sidecar: bytes | None = None) -> None:
        self._log = log
        self.path = log.path
        self.name = os.path.basename(log.path)
        self.sidecar = sidecar
        self.opened: list[SourceFile] = []
        self.passed: Callable[[int], object] | None = None
        self._document: str | None = None
        self._not_utf8: dict[int, Damage] = {}
        is_compressed = log.read(0, len(MAGIC)) == MAGIC
        self._inside = Decompressed(log) if is_compressed else None
        self._read = log.read if self._inside is None else self._inside.read
        self._size = log.size() if self._inside is None else self._inside.size()

    @property
    def size(self) -> int:
        """The bytes of its lines, as far as they can be read."""
        return self._size

    @property
    def damage(self) -> list[Damage]:
        """What is wrong with the compression, and with the bytes of the lines that were read."""
        found = list(self._not_utf8.values())
        if self._inside is not None and self._inside.cause:
            found.append(Damage(self.path, 1, 0, "cut short", self._inside.cause))
        return found

    def head(self) -> bytes:
        """As much of its start as is enough to tell what it is."""
        return self._read(0, HEAD)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        complete = 0
        number = 1
        for offset, block in whole_lines(self._read, 0, self._size):
            lines = lines_in(block)
            if _not_utf8_at(block) is not None:
                self._look_over(lines, number, offset)
            number += len(lines)
            start = offset
            for line in lines:
                yield start, line
                start += len(line) + 1
            complete = start
            if self.passed is not None:
                self.passed(len(block))
        if complete < self._size:
            line = self._read(complete, self._size - complete)
            self._look_over([line], number, complete)
            yield complete, line

    def _look_over(self, lines: Sequence[bytes], number: int, offset: int) -> None:
        """Note which of some lines hold bytes that are no text."""
        for line in lines:
            bad = _not_utf8_at(line)
            if bad is not None:
                cause = f"invalid UTF-8 {bad} bytes into the line"
                self._not_utf8[offset] = Damage(self.path, number, offset, "utf-8", cause)
            number += 1
            offset += len(line) + 1

    def is_complete(self) -> bool:
        return not self._size or self._read(self._size - 1, 1) == b"\n"

    def beside(self) -> Sequence[Source]:
        for path in agent_files(self.path):
            try:
                log = FileLog(self._log.fs, path, readonly=True)
            except SessionTreeError:
                continue  # gone since, or not to be read: its calls and results are here still
            beside = SourceFile(log, sidecar_of(path, self._log.fs))
            beside.passed = self.passed
            self.opened.append(beside)
        return self.opened

    def value_at(self, offset: int) -> bytes:
        """The line that starts at an offset, or the JSON value over as many as it takes."""
        if self._log.closed:
            self._log.reopen()
        line = rest_of_line(self._read, offset)
        if _is_value(line):
            return line
        if self._document is None:  # a character for each byte, so that offsets are its own
            self._document = self._read(0, self._size).decode("latin-1")
        return whole_value(self._document, offset) or line

    def close(self) -> None:
        self._log.release()


def damage_of(source: SourceFile, known: Sequence[Damage]) -> list[Damage]:
    """What is wrong with a file and those beside it, apart from lines known to be damaged."""
    places = {(each.file, each.offset) for each in known}
    return [
        each
        for file in (source, *source.opened)
        for each in file.damage
        if (each.file, each.offset) not in places or each.kind != "utf-8"
    ]


def _not_utf8_at(text: bytes) -> int | None:
    """Where the first byte stands that is no UTF-8, or None."""
    if text.isascii():
        return None
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def _is_value(line: bytes) -> bool:
    """Whether a line holds a JSON value and nothing else."""
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        _skim(line)
        return True
    return decode_leniently(line.strip(b"\0").removeprefix(b"\xef\xbb\xbf")) is not None


_skim = msgspec.json.Decoder(msgspec.Raw).decode


def agent_files(path: str) -> Iterator[str]:
    """The transcripts of the subagents of the one at a path, in order of their names."""
    for where, folders, files in os.walk(os.path.join(own_folder(path), SUBAGENTS)):
        folders.sort()
        for name in sorted(files):
            if name.startswith("agent-") and name.endswith(".jsonl"):
                yield os.path.join(where, name)


_SIDECAR_LIMIT = 1 << 20


def sidecar_of(path: str, fs: FileSystem = DISK) -> bytes | None:
    """What is kept about a subagent beside its transcript, which is at a path."""
    try:
        fd = fs.open(path.removesuffix(".jsonl") + ".meta.json", READ)
    except OSError:
        return None
    try:
        return fs.read(fd, _SIDECAR_LIMIT, 0)
    except OSError:
        return None
    finally:
        fs.close(fd)
